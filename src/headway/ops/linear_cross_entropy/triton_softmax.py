"""The door to the Triton kernel of loss and gradient: where it can be used, and how the vocabulary is padded for it."""

from __future__ import annotations

import torch
from torch import Tensor

from headway._compile import triton_missing
from headway.ops.planned import planning_gpu

ALIGNED = 8  # numbers of 16 bits in the 16 bytes that tensor cores load at once
PADDED = 64  # the multiple to which a vocabulary is padded that is not aligned


def is_usable(device: torch.device, dtype: torch.dtype) -> bool:
    """Whether the logits are in 16 bits on a GPU, and Triton is installed."""
    if dtype not in (torch.bfloat16, torch.float16):
        return False
    return planning_gpu() or (device.type == "cuda" and triton_missing() is None)


def aligned(weight_VD: Tensor, dtype: torch.dtype) -> Tensor:
    """The matrix in this dtype, with rows of zeros added (P, D) until its columns are aligned."""
    vocab, width = weight_VD.shape
    if vocab % ALIGNED == 0:
        return weight_VD.to(dtype)
    out = weight_VD.new_empty(-(-vocab // PADDED) * PADDED, width, dtype=dtype)
    out[:vocab].copy_(weight_VD)
    out[vocab:].zero_()
    return out


def softmax_gradient_(
    logits_NP: Tensor, vocab: int, bias_V: Tensor | None, targets_N: Tensor, smoothing: float, *, wanted: bool
) -> Tensor:
    """The loss of each row (N,) in float32; `wanted`: its gradient is written over the logits, with zeros past `vocab`.

    A row whose target is negative has neither.
    """
    if planning_gpu():
        return logits_NP.new_empty(len(logits_NP), dtype=torch.float32)
    from headway.ops.linear_cross_entropy.launch import launch  # importing Triton takes time

    return launch(logits_NP, vocab, bias_V, targets_N, smoothing, wanted=wanted)
