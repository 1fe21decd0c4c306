"""The output layer and its cross-entropy loss in one, a block of rows at a time: no (N, V) tensor is ever whole.

The logits of a large vocabulary are most of what a small model reads and writes. For a block of rows, with
z = x·Wᵀ + b, p = softmax(z) and y = (1 - ε)·onehot + ε/V the target distribution with label smoothing ε,

    loss = Σ_v -y_v·log p_v = logsumexp(z) - (1 - ε)·z_target - ε/V·Σ_v z_v        since Σ_v y_v = 1
    dz = p - y,   dx = dz·W,   dW = dzᵀ·x,   db = Σ_n dz_n

The block of logits is overwritten by dz while it is still in the cache, and multiplied back; only dx, dW and db are
kept for the backward pass, which scales them by the gradient of the loss. So the forward pass does the work of both.
Without gradients only the loss is computed.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

BLOCK = {"cpu": 2**21, "cuda": 2**28}  # logits at a time: what fits a CPU's cache, or keeps a GPU busy


def linear_cross_entropy(
    x_ND: Tensor, weight_VD: Tensor, bias_V: Tensor | None, targets_N: Tensor, *, smoothing: float = 0.0
) -> Tensor:
    """The sum over n of the cross-entropy of x_n·weightᵀ + bias against target n, in nats: ().

    Smoothing ε mixes each target with the uniform distribution over all V (Szegedy et al. 2016, section 7), as
    `torch.nn.functional.cross_entropy` does. Under autocast the products are in its dtype and the rest in float32, as
    for a separate layer and loss.
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
                target_logits = logits.gather(1, target)
                if smoothing:
                    total -= smoothing / vocab * logits.sum()
                # logsumexp(z) = log Σ e^(z - max) + max; the logits become e^(z - max) in place.
                largest = logits.amax(-1, keepdim=True)
                gradient = logits.sub_(largest).exp_()
                sums = gradient.sum(-1, keepdim=True)
                total += (sums.log() + largest).sum() - (1 - smoothing) * target_logits.sum()
                if not (wants_x or wants_weight or wants_bias):
                    continue
                # dz = p - y: softmax, less ε/V everywhere, less 1 - ε at the target.
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
                    else:  # multiply in 16 bits, add up in float32
                        grad_weight += gradient.mT @ x[part]
        ctx.save_for_backward(grad_x, grad_weight, grad_bias)
        ctx.dtypes = (weight_VD.dtype, None if bias_V is None else bias_V.dtype)
        return total

    @staticmethod
    def backward(ctx: Any, grad_loss: Tensor) -> tuple[Tensor | None, ...]:
        grad_x, grad_weight, grad_bias = ctx.saved_tensors
        weight_dtype, bias_dtype = ctx.dtypes
        return (
            None if grad_x is None else grad_x * grad_loss.to(grad_x.dtype),
            None if grad_weight is None else (grad_weight * grad_loss).to(weight_dtype),
            None if grad_bias is None else (grad_bias * grad_loss).to(bias_dtype),
            None, None, None,
        )  # fmt: skip
