"""Training steps of several contenders on one GPU, in turns: seconds of a step, and peak memory."""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable, Mapping
from statistics import median

import torch
from torch import Tensor, nn

from headway.bench.result import BenchReport, Result
from headway.data.batching import Indices
from headway.tasks.training_task import Batch
from headway.training.trainer import Trainer

Steps = Callable[[], int]  # takes one or more steps -> how many
WARMUP = 5  # steps in which a contender compiles, and ours is recorded
SETTLED = 50  # further ones, after which ours takes as many at once as it will, and makes its batches meanwhile


def compare(
    makers: Mapping[str, Callable[[], Steps]], *, steps: int, rounds: int, tokens: Mapping[str, float]
) -> BenchReport:
    """The first contender against each of the others; `tokens` has what a step of each trains on, on average."""
    figures: dict[str, float] = {}
    contenders = {name: _warm(name, make, figures) for name, make in makers.items()}
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, call in contenders.items():
            times[name].append(seconds(call, steps))
            print(f"{name}: {1e3 * times[name][-1]:.2f} ms", file=sys.stderr)
    per_token = {name: median(kept) / tokens[name] for name, kept in times.items()}
    figures |= {f"{name}_tokens_per_second": round(1 / took) for name, took in per_token.items()}
    ours, *others = contenders
    return BenchReport([Result(f"step_{name}", per_token[ours], per_token[name]) for name in others], figures)


def _warm(name: str, make: Callable[[], Steps], figures: dict[str, float]) -> Steps:
    """A contender that has compiled and recorded, and its peak memory beside what the earlier ones keep."""
    gc.collect()
    torch.cuda.empty_cache()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    call = make()
    seconds(call, WARMUP)
    seconds(call, SETTLED)
    figures[f"{name}_peak_gib"] = round((torch.cuda.max_memory_allocated() - before) / 2**30, 2)
    return call


def seconds(call: Steps, steps: int) -> float:
    """Of a step, the mean over at least `steps`."""
    torch.cuda.synchronize()
    start, taken = time.perf_counter(), 0
    while taken < steps:
        taken += call()
    torch.cuda.synchronize()
    return (time.perf_counter() - start) / taken


def loading_share(trainer: Trainer, *, steps: int, rounds: int) -> float:
    """The share of a step that goes into making batches: its time with them, less that with one that is ready."""

    def own() -> int:
        return len(trainer.next_steps())

    def one(indices: Indices) -> Batch:
        return batch

    task = trainer.task
    made = task.batch
    batch = made(next(task.order.after(trainer.cursor))[0])
    times: dict[bool, list[float]] = {False: [], True: []}
    try:
        for ready in (False, True) * rounds:
            task.batch = one if ready else made  # type: ignore[method-assign]
            own()  # with the batches that were made before
            times[ready].append(seconds(own, steps))
    finally:
        task.batch = made  # type: ignore[method-assign]
    return 1 - median(times[True]) / median(times[False])


def plain_step(model: nn.Module, optimiser: torch.optim.Optimizer, loss: Callable[[], Tensor], clip: float) -> Steps:
    """A peer's step in bf16: loss, gradients, clipping if any, update, without synchronising."""

    def step() -> int:
        with torch.autocast("cuda", torch.bfloat16):
            found = loss()
        found.backward()
        if clip:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
        return 1

    return step


def decayed(model: nn.Module, decay: float) -> list[dict[str, object]]:
    """Parameter groups: weight decay on matrices only."""
    return [
        {"params": [p for p in model.parameters() if p.ndim >= 2], "weight_decay": decay},
        {"params": [p for p in model.parameters() if p.ndim < 2], "weight_decay": 0.0},
    ]
