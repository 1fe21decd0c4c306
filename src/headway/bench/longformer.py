"""Longformer: growth of time and memory with the length, and two layers against transformers'."""

from __future__ import annotations

import math
import re
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from headway import ops
from headway.bench.peers import peer
from headway.bench.result import BenchReport, Options, Result, compare
from headway.interop.families.longformer import LONGFORMER, UNUSED
from headway.interop.family import import_weights
from headway.models import LongformerConfig, LongformerMasked, LongformerMaskedConfig, build_model
from headway.storage.tensors import set_weights

HEADS, HEAD_WIDTH = 2, 64
STEP = 32768  # tokens of the training step


@dataclass(frozen=True, slots=True, kw_only=True)
class LongformerSizes:
    """What is measured."""

    lengths: tuple[int, ...] = (4096, 8192, 16384, 32768, 65536)  # of the slopes
    radius: int = 256
    rounds: int = 2
    width: int = 768  # of the two layers
    on_cpu: tuple[tuple[int, int], ...] = ((1, 2048),)  # rows and length of the comparison
    on_gpu: tuple[tuple[int, int], ...] = ((2, 4096), (2, 16384))


SIZES = LongformerSizes()


def run(options: Options, sizes: LongformerSizes = SIZES) -> BenchReport:
    """Slopes of forward and backward with a global token; two layers of base size; a long training step."""
    transformers = peer("transformers")
    figures = slopes("cpu", "banded", sizes)
    if not torch.cuda.is_available():
        results = [_compared(transformers, "cpu", torch.float32, *size, sizes) for size in sizes.on_cpu]
        return BenchReport(results, figures)
    for kernel in ("banded", "flash"):
        figures |= {f"cuda_{kernel}_{name}": value for name, value in slopes("cuda", kernel, sizes).items()}
    results = [
        _compared(transformers, "cuda", dtype, *size, sizes)
        for dtype in (torch.bfloat16, torch.float32)
        for size in sizes.on_gpu
    ]
    return BenchReport(results, figures | training_step(sizes.rounds))


def slopes(device: str, kernel: str, sizes: LongformerSizes) -> dict[str, float]:
    """The exponents of the length in seconds and in bytes, fitted over all lengths: 1 is linear, 2 quadratic."""
    torch.manual_seed(0)
    seconds, memory = [], []
    measure = partial(_on_cpu if device == "cpu" else _on_gpu, kernel, sizes)
    measure(sizes.lengths[0] // 4)  # initialises torch
    for length in sizes.lengths:
        took, used = measure(length)
        seconds.append(took)
        memory.append(used)
        print(f"{kernel} on {device}, T={length}: {took:.4f} s, {used / 2**20:.0f} MiB", file=sys.stderr)
    return {
        "time_slope": round(slope(sizes.lengths, seconds), 3),
        "memory_slope": round(slope(sizes.lengths, memory), 3),
        "longest_seconds": round(seconds[-1], 4),
        "longest_mib": round(memory[-1] / 2**20, 1),
    }


def slope(lengths: tuple[int, ...], values: list[float]) -> float:
    """The exponent of a power law, by least squares on the logarithms."""
    x, y = [math.log(n) for n in lengths], [math.log(max(v, 1e-9)) for v in values]
    middle, height = sum(x) / len(x), sum(y) / len(y)
    return sum((a - middle) * (b - height) for a, b in zip(x, y, strict=True)) / sum((a - middle) ** 2 for a in x)


def _forward_backward(kernel: str, radius: int, qkv: list[Tensor]) -> None:
    length = qkv[0].shape[2]
    first = torch.arange(length, device=qkv[0].device).view(1, -1) == 0
    mask = ops.Window(radius) | ops.Global(first.expand(len(qkv[0]), -1))
    ops.attend(*qkv, mask=mask, kernel=kernel).sum().backward()


def _on_cpu(kernel: str, sizes: LongformerSizes, length: int) -> tuple[float, float]:
    """The minimum seconds and peak bytes of a forward and backward pass, inputs included."""
    times = []
    before = _reset_peak()
    qkv = [torch.randn(1, HEADS, length, HEAD_WIDTH, requires_grad=True) for _ in range(3)]
    for _ in range(sizes.rounds):
        start = time.perf_counter()
        _forward_backward(kernel, sizes.radius, qkv)
        times.append(time.perf_counter() - start)
    return min(times), max(_status("VmHWM") - before, 1.0)


def _on_gpu(kernel: str, sizes: LongformerSizes, length: int) -> tuple[float, float]:
    """The same, with enough heads to fill the GPU at every length."""
    shape = (4, 16, length, HEAD_WIDTH)
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    qkv = [torch.randn(shape, device="cuda", dtype=torch.bfloat16, requires_grad=True) for _ in range(3)]
    times = []
    for _ in range(sizes.rounds + 2):
        torch.cuda.synchronize()
        start = time.perf_counter()
        _forward_backward(kernel, sizes.radius, qkv)
        torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return min(times), float(torch.cuda.max_memory_allocated())


def training_step(rounds: int) -> dict[str, float]:
    """A step of longformer-base over one long sequence: predict every token, AdamW, bf16 autocast, no dropout."""
    body = LongformerConfig(vocab=1000, context=STEP, dropout=0.0)
    model = LongformerMasked(LongformerMaskedConfig(longformer=body)).cuda()
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=True)
    tokens = torch.randint(3, 1000, (1, STEP), device="cuda")
    first = torch.arange(STEP, device="cuda").view(1, -1) == 0
    torch.cuda.reset_peak_memory_stats()
    times = []
    for _ in range(rounds + 2):
        torch.cuda.synchronize()
        start = time.perf_counter()
        with torch.autocast("cuda", torch.bfloat16):
            logits = model(tokens, global_BT=first)
        F.cross_entropy(logits.flatten(0, 1).float(), tokens.flatten()).backward()
        optimiser.step()
        optimiser.zero_grad()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    figures = {"step_32k_seconds": round(min(times), 4)}
    figures["step_32k_peak_gib"] = round(torch.cuda.max_memory_allocated() / 2**30, 2)
    print(f"12 layers, a training step of {STEP} tokens: {figures}", file=sys.stderr)
    return figures


def _reset_peak() -> float:
    """Reset the peak memory of the process -> its memory now, in bytes."""
    Path("/proc/self/clear_refs").write_text("5")
    return _status("VmRSS")


def _status(key: str) -> float:
    found = re.search(rf"{key}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return 1024 * float(found[1]) if found else 0.0


@torch.no_grad()
def _compared(
    transformers: Any, device: str, dtype: torch.dtype, rows: int, length: int, sizes: LongformerSizes
) -> Result:
    """A forward pass of two layers with the same weights, the first token global."""
    width = sizes.width
    theirs = transformers.LongformerModel(
        transformers.LongformerConfig(
            vocab_size=1000, hidden_size=width, num_hidden_layers=2, num_attention_heads=width // 64,
            intermediate_size=4 * width, attention_window=2 * sizes.radius, max_position_embeddings=length + UNUSED,
            type_vocab_size=1, layer_norm_eps=1e-5, pad_token_id=1,
        )
    ).eval()  # fmt: skip
    config = LongformerConfig(vocab=1000, context=length, width=width, layers=2, heads=width // 64, inner=4 * width)
    ours = build_model(config).eval()
    weights = {name: value.detach() for name, value in theirs.named_parameters()}
    set_weights(ours, import_weights(LONGFORMER, config, weights), "the peer")
    theirs, ours = theirs.to(device, dtype), ours.to(device, dtype)
    tokens = torch.randint(3, 1000, (rows, length), device=device)
    first = (torch.arange(length, device=device) == 0).expand(rows, length)
    lengths = torch.full((rows,), length, device=device)

    def finished(call: Callable[[], Tensor]) -> Tensor:
        out = call()
        if device == "cuda":
            torch.cuda.synchronize()
        return out

    name = f"{device}_{str(dtype).removeprefix('torch.')}_{rows}x{length}"
    result = compare(
        name,
        lambda: finished(lambda: ours(tokens, lengths, global_BT=first)),
        lambda: finished(
            lambda: (
                theirs(
                    tokens, attention_mask=torch.ones_like(tokens), global_attention_mask=first.long()
                ).last_hidden_state
            )
        ),
        rounds=sizes.rounds if device == "cpu" else 10,
    )
    print(f"{name}: {result.ours * 1e3:.1f} ms, transformers {result.peer * 1e3:.1f} ms", file=sys.stderr)
    return result
