"""The output layer and its loss in one, a few rows at a time: no tensor of rows × vocabulary is ever whole.

The logits of a large vocabulary are most of what a small model reads and writes. Here a block of them is made, turned
into its own gradient in place while it is still in the cache, and multiplied back; only the gradients of the features
and of the matrix remain. One pass does what forward and backward do, so it is for training: without gradients
the loss alone is computed the same way.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

BLOCK = {"cpu": 2**21, "cuda": 2**28}  # logits at once: a CPU's cache, or enough to keep a GPU busy


def linear_cross_entropy(
    x_ND: Tensor, weight_VD: Tensor, bias_V: Tensor | None, targets_N: Tensor, *, smoothing: float = 0.0
) -> Tensor:
    """Σ_n of the cross-entropy of x_n·weightᵀ + bias against target n, in nats.

    Smoothing ε mixes each target with the uniform distribution over all V, as `torch.nn.functional.cross_entropy` does.
    Under autocast the products are in its type and the rest in float32, as if the layers were apart.
    """
    dtype = x_ND.dtype
    if torch.is_autocast_enabled(x_ND.device.type):
        dtype = torch.get_autocast_dtype(x_ND.device.type)
    loss: Tensor = _LinearCrossEntropy.apply(x_ND, weight_VD, bias_V, targets_N, smoothing, dtype)  # type: ignore[no-untyped-call]
    return loss


class _LinearCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x_ND: Tensor,
        weight_VD: Tensor,
        bias_V: Tensor | None,
        targets_N: Tensor,
        smoothing: float,
        dtype: torch.dtype,
    ) -> Tensor:
        wants_x, wants_weight, wants_bias, *_ = ctx.needs_input_grad
        vocab = weight_VD.shape[0]
        exact = torch.promote_types(dtype, torch.float32)
        with torch.autocast(x_ND.device.type, enabled=False):
            x, weight = x_ND.to(dtype), weight_VD.to(dtype)
            grad_x = torch.empty_like(x_ND) if wants_x else None
            grad_weight = torch.zeros_like(weight_VD, dtype=exact) if wants_weight else None
            grad_bias = torch.zeros_like(bias_V, dtype=exact) if bias_V is not None and wants_bias else None
            total = x.new_zeros((), dtype=exact)
            rows = max(BLOCK["cuda" if x.is_cuda else "cpu"] // vocab, 1)
            for first in range(0, len(x), rows):
                part = slice(first, first + rows)
                target = targets_N[part].unsqueeze(-1)
                logits = (x[part] @ weight.mT).to(exact)
                if bias_V is not None:
                    logits = logits + bias_V
                chosen = logits.gather(1, target)
                if smoothing:
                    total -= smoothing / vocab * logits.sum()
                largest = logits.amax(-1, keepdim=True)
                gradient = logits.sub_(largest).exp_()
                sums = gradient.sum(-1, keepdim=True)
                total += (sums.log() + largest).sum() - (1 - smoothing) * chosen.sum()
                if not (wants_x or wants_weight or wants_bias):
                    continue
                gradient.div_(sums)
                if smoothing:
                    gradient.sub_(smoothing / vocab)
                gradient.scatter_add_(1, target, gradient.new_full(target.shape, smoothing - 1))
                if grad_bias is not None:
                    grad_bias += gradient.sum(0)
                gradient = gradient.to(dtype)
                if grad_x is not None:
                    grad_x[part] = gradient @ weight
                if grad_weight is not None:
                    if dtype == exact:
                        grad_weight.addmm_(gradient.mT, x[part])
                    else:
                        grad_weight += gradient.mT @ x[part]
        ctx.save_for_backward(grad_x, grad_weight, grad_bias)
        ctx.types = (weight_VD.dtype, None if bias_V is None else bias_V.dtype)
        return total

    @staticmethod
    def backward(ctx: Any, outer: Tensor) -> tuple[Tensor | None, ...]:
        grad_x, grad_weight, grad_bias = ctx.saved_tensors
        weight_type, bias_type = ctx.types
        return (
            None if grad_x is None else grad_x * outer.to(grad_x.dtype),
            None if grad_weight is None else (grad_weight * outer).to(weight_type),
            None if grad_bias is None else (grad_bias * outer).to(bias_type),
            None, None, None,
        )  # fmt: skip
