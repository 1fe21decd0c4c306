"""Launches the kernel of loss and gradient."""

from __future__ import annotations

import functools
from importlib import import_module
from typing import Any

import torch
from torch import Tensor

EACH = 8  # columns of a thread at a time: 16 bytes
WARPS = 16  # few rows in work at once stay in the cache until they are read again
STAGES = 3  # blocks of a row that are being read at once


@functools.cache
def _kernels() -> Any:
    """The Triton kernels, imported at first use."""
    return import_module("headway.ops.linear_cross_entropy.kernels")


def launch(
    logits_NP: Tensor, vocab: int, bias_V: Tensor | None, targets_N: Tensor, smoothing: float, *, wanted: bool
) -> Tensor:
    """`triton_softmax.softmax_gradient_`, one program a row."""
    rows, stride = logits_NP.shape
    losses_N = logits_NP.new_empty(rows, dtype=torch.float32)
    if rows:
        warps = max(min(WARPS, -(-stride // (32 * EACH))), 1)
        warps = 1 << (warps.bit_length() - 1)
        _kernels().softmax_gradient[(rows,)](
            logits_NP, logits_NP if bias_V is None else bias_V, targets_N, losses_N, vocab, stride, smoothing,
            HAS_BIAS=bias_V is not None, SMOOTHED=smoothing > 0, WANTED=wanted, LANES=32 * warps, EACH=EACH,
            STAGES=STAGES, num_warps=warps,
        )  # fmt: skip
    return losses_N
