"""The output layer and its cross-entropy loss in one, a block of rows at a time: no (N, V) tensor is ever whole.

The logits of a large vocabulary are most of what a small model reads and writes. For a block of rows, with
z = x·Wᵀ + b, p = softmax(z) and y = (1 - ε)·onehot + ε/V the target distribution with label smoothing ε,

    loss = Σ_v -y_v·log p_v = logsumexp(z) - (1 - ε)·z_target - ε/V·Σ_v z_v        since Σ_v y_v = 1
    dz = p - y,   dx = dz·W,   dW = dzᵀ·x,   db = Σ_n dz_n

The block of logits is overwritten by dz while it is still in the cache, and multiplied back; only dx, dW and db are
kept for the backward pass, which scales them by the gradient of the loss. So the forward pass does the work of both.
Without gradients only the loss is computed.

In 16 bits on a GPU one Triton kernel makes the loss and dz of a block of 16-bit logits (`triton_softmax`), and the
vocabulary is padded inside: rows of 50,257 numbers are not aligned, and cuBLAS multiplies them several times more
slowly than rows of 50,304.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from headway.ops.linear_cross_entropy import triton_softmax
from headway.ops.planned import planning_gpu

# Logits at a time: what fits a CPU's cache, or keeps a GPU busy; those of the Triton kernel have 16 bits.
BLOCK = {"cpu": 2**21, "cuda": 2**28, "triton": 2**30}


def linear_cross_entropy(
    x_ND: Tensor, weight_VD: Tensor, bias_V: Tensor | None, targets_N: Tensor, *, smoothing: float = 0.0
) -> Tensor:
    """The sum over n of the cross-entropy of x_n·weightᵀ + bias against target n, in nats: ().

    Smoothing ε mixes each target with the uniform distribution over all V (Szegedy et al. 2016, section 7), as
    `torch.nn.functional.cross_entropy` does. Under autocast the products are in its dtype and the rest in float32, as
    for a separate layer and loss. A row whose target is negative has no loss and no gradient.
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
        vocab, exact = weight_VD.shape[0], torch.promote_types(dtype, torch.float32)
        fused = triton_softmax.is_usable(x_ND.device, dtype)
        with torch.autocast(x_ND.device.type, enabled=False):
            x = x_ND.to(dtype)
            weight = triton_softmax.aligned(weight_VD, dtype) if fused else weight_VD.to(dtype)
            grad_x = torch.empty_like(x_ND) if wants_x else None
            grad_weight = torch.zeros_like(weight, dtype=exact) if wants_weight else None
            grad_bias = torch.zeros_like(bias_V, dtype=exact) if bias_V is not None and wants_bias else None
            total = x.new_zeros((), dtype=exact)
            block = _fused_block if fused else _block
            device = "cuda" if planning_gpu() else x.device.type
            for part in _parts(len(x), len(weight), fused=fused, device=device):
                loss, gradient = block(
                    x[part] @ weight.mT, vocab, bias_V, targets_N[part], smoothing, any(ctx.needs_input_grad)
                )
                total += loss
                if gradient is None:
                    continue
                if grad_bias is not None:
                    grad_bias += gradient[:, :vocab].sum(0, dtype=exact)
                gradient = gradient.to(dtype)
                if grad_x is not None:
                    grad_x[part] = gradient @ weight
                if grad_weight is not None:
                    _add_product(grad_weight, gradient.mT, x[part])
        ctx.save_for_backward(grad_x, None if grad_weight is None else grad_weight[:vocab], grad_bias)
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


def _parts(rows: int, vocab: int, *, fused: bool, device: str) -> list[slice]:
    """Blocks of rows with at most BLOCK logits; those of the fused kernel are nearly equal in size."""
    size = max(BLOCK["triton" if fused else device] // vocab, 1)
    if fused:
        size = -(-rows // max(-(-rows // size), 1))
    return [slice(first, first + size) for first in range(0, rows, size)]


def _block(
    logits: Tensor, vocab: int, bias_V: Tensor | None, targets: Tensor, smoothing: float, wanted: bool
) -> tuple[Tensor, Tensor | None]:
    """The summed loss of a block of rows, and the gradient of its logits (N, V) if wanted, in float32 at least."""
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    if bias_V is not None:
        logits = logits + bias_V
    target, real = targets.clamp(min=0).unsqueeze(-1), (targets >= 0).to(logits.dtype).unsqueeze(-1)
    target_logits = logits.gather(1, target)
    total = logits.new_zeros(())
    if smoothing:
        total = total - smoothing / vocab * (logits.sum(-1, keepdim=True) * real).sum()
    # logsumexp(z) = log Σ e^(z - max) + max; the logits become e^(z - max) in place.
    largest = logits.amax(-1, keepdim=True)
    gradient = logits.sub_(largest).exp_()
    sums = gradient.sum(-1, keepdim=True)
    total = total + ((sums.log() + largest) * real).sum() - (1 - smoothing) * (target_logits * real).sum()
    if not wanted:
        return total, None
    # dz = p - y: softmax, less ε/V everywhere, less 1 - ε at the target; a row without a target is divided by infinity.
    gradient.div_(sums / real)
    if smoothing:
        gradient.sub_(smoothing / vocab * real)
    return total, gradient.scatter_add_(1, target, (smoothing - 1) * real)


def _fused_block(
    logits: Tensor, vocab: int, bias_V: Tensor | None, targets: Tensor, smoothing: float, wanted: bool
) -> tuple[Tensor, Tensor | None]:
    """The same by one kernel, which writes the gradient over the 16-bit logits."""
    losses = triton_softmax.softmax_gradient_(logits, vocab, bias_V, targets, smoothing, wanted=wanted)
    return losses.sum(), logits if wanted else None


def _add_product(total: Tensor, a: Tensor, b: Tensor) -> None:
    """total += a·b in float32 at least; 16-bit factors are multiplied in 16 bits and added up in float32."""
    if a.dtype == total.dtype:
        total.addmm_(a, b)
    elif a.is_cuda or planning_gpu():
        torch.addmm(total, a, b, out_dtype=total.dtype, out=total)
    else:
        total += a @ b
