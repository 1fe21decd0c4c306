"""Longformer: how time and memory of window attention grow with the text, and two layers beside transformers'."""

from __future__ import annotations

import math
import re
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from headway import ops
from headway.bench.peers import peer
from headway.bench.result import Options, Report, Result, compare
from headway.interop.families.longformer import LONGFORMER, UNUSED
from headway.interop.family import import_weights
from headway.models import LongformerConfig, LongformerMasked, LongformerMaskedConfig, build_model
from headway.storage.commit import set_weights

LENGTHS = (4096, 8192, 16384, 32768, 65536)  # of the slopes, on a CPU
RADIUS, HEADS, HEAD_WIDTH = 256, 2, 64
ROUNDS = 2
WIDTH = 768  # of the two layers
ON_CPU = ((1, 2048),)  # rows and length of the comparison; on a GPU as PEERS.md has it
ON_GPU = ((2, 4096), (2, 16384))
STEP = 32768  # tokens of the training step


def run(options: Options) -> Report:
    """Slopes forward and backward with a global token; two layers of base size beside transformers'; a long step."""
    transformers = peer("transformers")
    figures = slopes("cpu", "banded")
    if not torch.cuda.is_available():
        return Report([_beside(transformers, "cpu", torch.float32, *size) for size in ON_CPU], figures)
    kinds = ((torch.bfloat16, size) for size in ON_GPU), ((torch.float32, size) for size in ON_GPU)
    for kernel in ("banded", "flash"):
        figures |= {f"cuda_{kernel}_{name}": value for name, value in slopes("cuda", kernel).items()}
    results = [_beside(transformers, "cuda", dtype, *size) for kind in kinds for dtype, size in kind]
    return Report(results, figures | training_step())


def slopes(device: str, kernel: str) -> dict[str, float]:
    """The exponents of the length in seconds and in bytes, fitted over LENGTHS: 1 is linear, 2 quadratic."""
    torch.manual_seed(0)
    seconds, memory = [], []
    measure = partial(_on_cpu if device == "cpu" else _on_gpu, kernel)
    measure(LENGTHS[0] // 4)  # what torch loads and keeps at its first call
    for length in LENGTHS:
        took, used = measure(length)
        seconds.append(took)
        memory.append(used)
        print(f"{kernel} on {device}, T={length}: {took:.4f} s, {used / 2**20:.0f} MiB", file=sys.stderr)
    return {
        "time_slope": round(slope(LENGTHS, seconds), 3),
        "memory_slope": round(slope(LENGTHS, memory), 3),
        "longest_seconds": round(seconds[-1], 4),
        "longest_mib": round(memory[-1] / 2**20, 1),
    }


def slope(lengths: tuple[int, ...], values: list[float]) -> float:
    """Least squares through the logarithms."""
    x, y = [math.log(n) for n in lengths], [math.log(max(v, 1e-9)) for v in values]
    middle, height = sum(x) / len(x), sum(y) / len(y)
    return sum((a - middle) * (b - height) for a, b in zip(x, y, strict=True)) / sum((a - middle) ** 2 for a in x)


def _there_and_back(kernel: str, qkv: list[Tensor]) -> None:
    length = qkv[0].shape[2]
    first = torch.arange(length, device=qkv[0].device).view(1, -1) == 0
    mask = ops.Window(RADIUS) | ops.Global(first.expand(len(qkv[0]), -1))
    ops.attend(*qkv, mask=mask, kernel=kernel).sum().backward()


def _on_cpu(kernel: str, length: int) -> tuple[float, float]:
    """The best seconds and the most bytes of a forward and a backward pass, the inputs counted."""
    times = []
    before = _reset_peak()
    qkv = [torch.randn(1, HEADS, length, HEAD_WIDTH, requires_grad=True) for _ in range(3)]
    for _ in range(ROUNDS):
        start = time.perf_counter()
        _there_and_back(kernel, qkv)
        times.append(time.perf_counter() - start)
    return min(times), max(_status("VmHWM") - before, 1.0)


def _on_gpu(kernel: str, length: int) -> tuple[float, float]:
    """The same, with heads enough to fill it from the shortest text on."""
    shape = (4, 16, length, HEAD_WIDTH)
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    qkv = [torch.randn(shape, device="cuda", dtype=torch.bfloat16, requires_grad=True) for _ in range(3)]
    times = []
    for _ in range(ROUNDS + 2):
        torch.cuda.synchronize()
        start = time.perf_counter()
        _there_and_back(kernel, qkv)
        torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return min(times), float(torch.cuda.max_memory_allocated())


def training_step() -> dict[str, float]:
    """A step of longformer-base over one long text: guess every token, AdamW, bf16 autocast, no dropout."""
    body = LongformerConfig(vocab=1000, context=STEP, dropout=0.0)
    model = LongformerMasked(LongformerMaskedConfig(longformer=body)).cuda()
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=True)
    tokens = torch.randint(3, 1000, (1, STEP), device="cuda")
    first = torch.arange(STEP, device="cuda").view(1, -1) == 0
    torch.cuda.reset_peak_memory_stats()
    times = []
    for _ in range(ROUNDS + 2):
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
    """Let the kernel forget the process's highest memory; what it has now, in bytes."""
    Path("/proc/self/clear_refs").write_text("5")
    return _status("VmRSS")


def _status(key: str) -> float:
    found = re.search(rf"{key}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return 1024 * float(found[1]) if found else 0.0


@torch.no_grad()
def _beside(transformers: Any, device: str, dtype: torch.dtype, rows: int, length: int) -> Result:
    """One forward pass of two layers, the first token global, with the same weights."""
    theirs = transformers.LongformerModel(
        transformers.LongformerConfig(
            vocab_size=1000, hidden_size=WIDTH, num_hidden_layers=2, num_attention_heads=WIDTH // 64,
            intermediate_size=4 * WIDTH, attention_window=2 * RADIUS, max_position_embeddings=length + UNUSED,
            type_vocab_size=1, layer_norm_eps=1e-5, pad_token_id=1,
        )
    ).eval()  # fmt: skip
    config = LongformerConfig(vocab=1000, context=length, width=WIDTH, layers=2, heads=WIDTH // 64, inner=4 * WIDTH)
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
        rounds=ROUNDS if device == "cpu" else 10,
    )
    print(f"{name}: {result.ours * 1e3:.1f} ms, transformers {result.peer * 1e3:.1f} ms", file=sys.stderr)
    return result
