"""What `headway estimate` says of a training on this CPU, beside real steps: the peak of live tensors, and the time."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from headway.bench.memory import LiveBytes
from headway.bench.result import BenchReport, Options
from headway.config import override
from headway.estimate.here import this_machine
from headway.estimate.machines import Machine
from headway.estimate.memory import memory_of
from headway.estimate.plan import seconds_of_step
from headway.models import build_model
from headway.presets import preset
from headway.runs.config import RunConfig
from headway.tasks.base import DataRequest
from headway.tasks.training_task import TrainingTask
from headway.training.callbacks import SilentCallback
from headway.training.trainer import Trainer

# As published, but for smaller batches of the large ones.
PRESETS: Mapping[str, Mapping[str, object]] = {
    "gpt-char": {},
    "transformer-tiny": {"train.batch_tokens": 2048},
    "longformer-char": {},
    "rnn-lm": {},
    "vit-small-data": {"train.batch_tokens": 16},
    "convnet": {"train.batch_tokens": 16},
    "gpt2": {"train.batch_tokens": 512, "task.context": 256, "model.context": 256, "train.precision": "fp32"},
    "bert-base": {"train.batch_tokens": 512, "train.precision": "fp32"},
}
RECOMPUTE = ("none", "blocks")


@dataclass(frozen=True, slots=True, kw_only=True)
class EstimateSizes:
    """The presets with what is changed in them, and how many steps are timed."""

    presets: Mapping[str, Mapping[str, object]] = field(default_factory=lambda: PRESETS)
    steps: int = 3


def run(options: Options, sizes: EstimateSizes | None = None) -> BenchReport:
    """For each preset, plain and recomputing: estimated bytes to live ones, and the share of the time's range."""
    sizes = sizes or EstimateSizes()
    figures: dict[str, float] = {}
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # its time is that of the process, whatever else the machine computes
    try:
        machine = this_machine("cpu")
        for name, changes in sizes.presets.items():
            for kind in RECOMPUTE:
                config = with_changes(name, {**changes, "train.recompute": kind}, device="cpu")
                config = replace(config, train=replace(config.train, accumulate=1))
                for figure, value in _compared(config, machine, sizes.steps).items():
                    figures[f"{name}_{'plain' if kind == 'none' else 'recompute'}_{figure}"] = value
    finally:
        torch.set_num_threads(threads)
    return BenchReport([], figures)


def with_changes(name: str, changes: Mapping[str, object], *, device: str) -> RunConfig:
    """A preset's recipe on a device, not compiled."""
    return override(preset(name).recipe(), {**changes, "train.device": device, "train.compile": False})


def stand_in(config: RunConfig) -> TrainingTask:
    """The task of a config on made-up data."""
    return config.task.stand_in(
        DataRequest(
            data=config.data, model=config.model, folder=Path(), batch_tokens=config.train.batch_tokens,
            seed=config.train.seed,
        )
    )  # fmt: skip


def _compared(config: RunConfig, machine: Machine, steps: int) -> dict[str, float]:
    task = stand_in(config)
    estimated = memory_of(config, task).peak
    span = seconds_of_step(config, task, machine)
    with TemporaryDirectory() as folder:
        live = LiveBytes()
        with live:
            trainer = Trainer(build_model(config.model), task, config.train, Path(folder), SilentCallback())
            trainer.advance()  # the optimiser makes its state
            live.peak = live.now
            trainer.advance()
        taken = [_timed(trainer.advance) for _ in range(steps)]
    seconds = sorted(taken)[len(taken) // 2]
    return {
        "estimated_mib": round(estimated / 2**20, 1),
        "live_mib": round(live.peak / 2**20, 1),
        "ratio": round(estimated / live.peak, 4),
        "seconds": round(seconds, 3),
        "least_seconds": round(span.low, 3),
        "most_seconds": round(span.high, 3),
    }


def _timed(call: Callable[[], object]) -> float:
    begun = time.process_time()
    call()
    return time.process_time() - begun
