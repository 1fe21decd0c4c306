"""`ops.attend` against torch's attention: the overhead of dispatching, and the gain of a sliding window."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from headway import ops
from headway.bench.result import BenchReport, Options, compare


def _forward_backward(attention: Callable[..., Tensor], q: Tensor, k: Tensor, v: Tensor) -> None:
    attention(q, k, v).sum().backward()


def run(options: Options) -> BenchReport:
    """`attend` against plain scaled_dot_product_attention, forward and backward, on the CPU."""
    torch.manual_seed(0)
    window = ops.Window(128, 0)
    results = []
    for length in (512, 4096):
        qkv = [torch.randn(1, 8, length, 64, requires_grad=True) for _ in range(3)]
        pairs: dict[str, tuple[ops.Mask, dict[str, Any]]] = {
            "causal, T={}, against sdpa is_causal": (ops.Causal(), {"is_causal": True}),
            "window 128, T={}, against sdpa with a mask": (window, {"attn_mask": window.dense(length, length)}),
        }
        for name, (mask, settings) in pairs.items():
            ours = partial(_forward_backward, partial(ops.attend, mask=mask), *qkv)
            peer = partial(_forward_backward, partial(F.scaled_dot_product_attention, **settings), *qkv)
            results.append(compare(name.format(length), ours, peer))
    return BenchReport(results)
