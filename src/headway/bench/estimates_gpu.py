"""What `headway estimate` says of the memory of a training on a GPU, beside real steps on one.

The live figure is the most that torch's allocator had given out at once. It counts what the libraries' kernels work in
as well (cuBLAS takes 32 MiB on a Hopper GPU), which the estimate does not.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from headway.bench.estimates import RECOMPUTE, stand_in, with_changes
from headway.bench.result import BenchReport, Options
from headway.errors import ConfigError
from headway.estimate.memory import memory_of
from headway.models import build_model
from headway.runs.config import RunConfig
from headway.training.callbacks import SilentCallback
from headway.training.trainer import Trainer

# As published, but for the batch and the number of micro-batches: two show the peak, since the second finds the
# gradients of the first.
PRESETS: Mapping[str, Mapping[str, object]] = {
    "gpt2": {"train.batch_tokens": 16384},
    "bert-base": {"train.batch_tokens": 16384},
    "transformer-base": {},
    "vit-b16": {"train.batch_tokens": 64},
    "gpt2-xl": {"train.batch_tokens": 8192},
}
STEPS = 3  # in the first of which the optimiser makes its state


@dataclass(frozen=True, slots=True, kw_only=True)
class EstimateGpuSizes:
    """The presets with what is changed in them, and those that are tried with recomputing alone."""

    presets: Mapping[str, Mapping[str, object]] = field(default_factory=lambda: PRESETS)
    recomputed_only: tuple[str, ...] = ("gpt2-xl",)


def run(options: Options, sizes: EstimateGpuSizes | None = None) -> BenchReport:
    """For each preset, plain and recomputing: estimated bytes to the allocator's peak."""
    if not torch.cuda.is_available():
        raise ConfigError("estimate-gpu needs a GPU, and torch finds no GPU")
    sizes = sizes or EstimateGpuSizes()
    figures: dict[str, float] = {}
    for name, changes in sizes.presets.items():
        for kind in RECOMPUTE:
            if kind == "none" and name in sizes.recomputed_only:
                continue
            config = recipe(name, {**changes, "train.recompute": kind})
            estimated, live = memory_of(config, stand_in(config), gpu=True).peak, live_bytes(config)
            found = {
                "estimated_mib": round(estimated / 2**20, 1),
                "live_mib": round(live / 2**20, 1),
                "ratio": round(estimated / live, 4),
            }
            label = f"{name}_{'plain' if kind == 'none' else 'recompute'}"
            figures |= {f"{label}_{figure}": value for figure, value in found.items()}
            print(label, found, file=sys.stderr)
    return BenchReport([], figures)


def recipe(name: str, changes: Mapping[str, object]) -> RunConfig:
    """A preset's recipe on a GPU, in at most two micro-batches."""
    config = with_changes(name, changes, device="cuda")
    return replace(config, train=replace(config.train, accumulate=min(config.train.accumulate, 2)))


def live_bytes(config: RunConfig) -> int:
    """The most bytes that torch's allocator has given out at once in a step, beside what was there before."""
    gc.collect()
    torch.cuda.empty_cache()
    before = torch.cuda.memory_allocated()
    with TemporaryDirectory() as folder:
        trainer = Trainer(build_model(config.model), stand_in(config), config.train, Path(folder), SilentCallback())
        trainer.advance()
        torch.cuda.reset_peak_memory_stats()
        for _ in range(STEPS - 1):
            trainer.advance()
        return torch.cuda.max_memory_allocated() - before
