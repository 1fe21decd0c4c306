"""Attention on a GPU: our Triton kernel against torch's back ends and FlexAttention, and the choice of `auto`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention.flex_attention import flex_attention

from headway import ops
from headway.bench.result import BenchReport, Options, Result
from headway.errors import ConfigError
from headway.ops.kernels import flex
from headway.ops.kernels.base import AttentionInputs

Attention = Callable[[Tensor, Tensor, Tensor], Tensor]
HEADS, TOKENS = 16, 16384  # total tokens: shorter sequences come in larger batches
WIDTHS, LENGTHS = (64, 128), (4096, 16384)
WINDOW = 512  # keys before each query
ROUNDS = 10
BLOCK = 2**34  # bytes written before each call, to flush the caches


@dataclass(frozen=True, slots=True)
class FlashCase:
    """Kind of mask, head width and length of one measurement."""

    kind: str
    width: int
    length: int

    @property
    def name(self) -> str:
        """Prefix of the reported names."""
        return f"{self.kind}_{self.width}_{self.length}"

    def attention(self) -> dict[str, Any]:
        """The mask and the bias."""
        mask: ops.Mask = ops.Window(WINDOW, 0) if self.kind == "window" else ops.Causal()
        slopes = ops.alibi_slopes(HEADS).cuda()
        return {"mask": mask, "bias": ops.Alibi(slopes) if self.kind == "alibi" else None}


def run(options: Options) -> BenchReport:
    """Causal, window and ALiBi, forward and with the backward pass, in bf16; all candidates alternately."""
    if not torch.cuda.is_available():
        raise ConfigError("flash needs a GPU, and torch finds no GPU")
    results: list[Result] = []
    figures: dict[str, float] = {}
    for row in (FlashCase(kind, e, t) for kind in ("causal", "window", "alibi") for e in WIDTHS for t in LENGTHS):
        for way, seconds in measured(row).items():
            name = f"{row.name}_{way}"
            shown = ", ".join(f"{who} {took * 1e3:.3f}" for who, took in seconds.items())
            print(f"{name} (ms): {shown}", file=sys.stderr)
            peers = ("sdpa_flash", "sdpa_cudnn", "flex")
            results += [Result(f"{name}_{p}", seconds["flash"], seconds[p]) for p in peers if p in seconds]
            best = min(took for who, took in seconds.items() if who != "auto")
            figures[f"{name}_auto_over_best"] = round(seconds["auto"] / best, 3)
    figures["auto_over_best_worst"] = max(figures.values())
    return BenchReport(results, figures)


def candidates(row: FlashCase) -> dict[str, Attention]:
    """Every kernel that supports the mask and bias."""
    settings = row.attention()
    found: dict[str, Attention] = {
        "flash": partial(ops.attend, kernel="flash", **settings),
        "flex": _flex(row, settings),
        "auto": partial(ops.attend, **settings),
    }
    if row.kind == "causal":
        found["sdpa_flash"] = partial(_pinned, SDPBackend.FLASH_ATTENTION)
        found["sdpa_cudnn"] = partial(_pinned, SDPBackend.CUDNN_ATTENTION)
    return found


def _pinned(backend: SDPBackend, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    with sdpa_kernel([backend]):
        out: Tensor = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    return out


def _flex(row: FlashCase, settings: dict[str, Any]) -> Attention:
    q = torch.empty(1, HEADS, row.length, row.width, device="cuda", dtype=torch.bfloat16)
    bias: ops.Bias | None = settings["bias"]
    blocks = flex.block_mask(AttentionInputs(q, q, q, settings["mask"], bias, 1.0))

    def add(score: Tensor, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        assert bias is not None
        return score + bias.term(b, h, i, j).to(score.dtype)

    torch.compiler.reset()  # after eight recompilations torch would silently run it uncompiled
    static = torch.compile(flex_attention, dynamic=False)  # specialised for this shape, its best case
    return partial(static, score_mod=add if bias is not None else None, block_mask=blocks)


def measured(row: FlashCase) -> dict[str, dict[str, float]]:
    """The median seconds of each candidate, forward alone and with the backward pass."""
    shape = (max(TOKENS // row.length, 1), HEADS, row.length, row.width)
    q, k, v, grad = (torch.randn(shape, device="cuda", dtype=torch.bfloat16) for _ in range(4))
    there = candidates(row)

    def forward(call: Attention) -> None:
        with torch.no_grad():
            call(q, k, v)

    def both(call: Attention) -> None:
        leaves = [x.detach().requires_grad_() for x in (q, k, v)]
        torch.autograd.grad(call(*leaves), leaves, grad)

    ways = {"forward": forward, "both": both}
    return {name: _in_turns({who: partial(way, call) for who, call in there.items()}) for name, way in ways.items()}


def _in_turns(calls: dict[str, Callable[[], None]]) -> dict[str, float]:
    """Median seconds by CUDA events, one call of each per round, after two warm-up rounds."""
    times: dict[str, list[float]] = {who: [] for who in calls}
    free, _ = torch.cuda.mem_get_info()
    block = torch.empty(min(BLOCK, free // 2), dtype=torch.int8, device="cuda")
    for round_ in range(ROUNDS + 2):
        for who, call in calls.items():
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            block.zero_()  # flushes the caches, and keeps the GPU busy until the whole call is queued
            start.record()
            call()
            end.record()
            end.synchronize()
            if round_ > 1:
                times[who].append(start.elapsed_time(end) / 1e3)
    return {who: median(kept) for who, kept in times.items()}
