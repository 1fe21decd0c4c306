"""How fast this machine trains a model: a few steps of a throwaway copy, on parts of real batches.

Each step is measured by the clock and by the CPU time of the process. On a machine that others use as well the clock
also counts the time in which this process waits; the CPU time does not, on one thread: several wait for each other in
loops that compute. So where the load is above the number of cores, the steps are measured on one thread.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from headway.data.batching import Indices, Order
from headway.data.permutation import Computed
from headway.models import build_model
from headway.runs.config import RunConfig
from headway.tasks.training_task import TrainingTask
from headway.training.callbacks import SilentCallback
from headway.training.devices import load_hint
from headway.training.trainer import Trainer

LEAST_STEPS, MOST_STEPS = 3, 20  # in one measurement, after the first step, which also allocates
LONGEST = 2  # times the patience, after which fewer steps are enough
VERY_SLOW = 4  # times the patience, computed in one step: no second one is taken, nor a whole batch
ALLOCATING = 3.0  # seconds that a first step may compute that later ones do not
SMALL = 1 / 8  # of a batch: what is measured first
BUSY = 1.5  # seconds by the clock for each that is computed, from which on the machine is called busy


@dataclass(frozen=True, slots=True)
class Elapsed:
    """The seconds of a step: by the clock, and those that were computed, on all threads together."""

    clock: float
    cpu: float

    @property
    def better(self) -> float:
        """The time on a machine without other load: several threads compute more seconds than the clock shows."""
        return min(self.clock, self.cpu)


class StepTimes:
    """The seconds that a micro-batch takes, by its size as a share of the config's; measured when asked for.

    Steps are taken by a separate trainer on a separate model: no part of them belongs to a run. `patience` is how
    many seconds a measurement may take beyond the steps that it needs at least.
    """

    def __init__(self, config: RunConfig, task: TrainingTask, folder: Path, patience: float) -> None:
        train = replace(config.train, accumulate=1, compile=False, non_finite="skip")
        model = build_model(config.model, seed=config.train.seed)
        self.task, self.folder, self.patience = task, folder, patience
        self.trainer = Trainer(model, task, train, folder, SilentCallback())
        self.threads = 1 if load_hint(self.trainer.device) else torch.get_num_threads()
        self.last = self._measured(SMALL)
        self.small = self.last.better
        self.slope: float | None = None

    def seconds(self, share: float) -> float:
        """Of a micro-batch of this share, without the time spent waiting for other processes.

        Where a whole one would take far beyond `patience`, it is not tried, but taken from a small one.
        """
        if self.slope is None:
            whole = self.small / SMALL
            if whole <= VERY_SLOW * self.patience:
                self.last = self._measured(1.0)
                whole = self.last.better
            self.slope = max(whole - self.small, 0.0) / (1 - SMALL)
        return max(self.small + self.slope * (share - SMALL), 0.5 * self.small)

    @property
    def busy(self) -> float:
        """Seconds by the clock for each one of `seconds`: 1 unless other processes use the machine."""
        return self.last.clock / max(self.last.better, 1e-9)

    def _measured(self, share: float) -> Elapsed:
        """The medians of a few steps, not the means: another process may take the machine for one of them."""
        self.trainer.task = _Part(self.task, share)
        self.trainer.batches = self.trainer.task.order.after(self.trainer.cursor)
        first = self._step()  # it also allocates
        if first.better > max(VERY_SLOW * self.patience, ALLOCATING):
            return first
        taken: list[Elapsed] = []
        spent = 0.0
        while len(taken) < MOST_STEPS and spent < self.patience * (1 if len(taken) >= LEAST_STEPS else LONGEST):
            taken.append(self._step())
            spent += taken[-1].clock
        return Elapsed(*(statistics.median(each) for each in zip(*((t.clock, t.cpu) for t in taken), strict=True)))

    def _step(self) -> Elapsed:
        started, computed = time.perf_counter(), time.process_time()
        with _threads(self.threads):
            self.trainer.advance()
        clock = time.perf_counter() - started
        # A GPU computes while the process waits.
        return Elapsed(clock, time.process_time() - computed if self.trainer.device.type == "cpu" else clock)

    def validation(self, most: float) -> float | None:
        """The seconds of a validation with its samples; None if it takes longer than `most`."""
        model, device = self.trainer.model.eval(), self.trainer.device
        started = time.perf_counter()
        try:
            with _deadline(started + most):
                self.task.validate(model, device)
                self.task.samples(model, device)
        except _TooLongError:
            return None
        return time.perf_counter() - started


@contextmanager
def _threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


class _Part:
    """A task whose batches are cut to a share of their rows."""

    def __init__(self, task: TrainingTask, share: float) -> None:
        self.task, self.order, self.fixed_shapes = task, _CutOrder(task.order, share), False

    def __getattr__(self, name: str) -> Any:
        return getattr(self.task, name)


class _CutOrder(Order):
    """The batches of another order, each cut."""

    def __init__(self, order: Order, share: float) -> None:
        super().__init__(order.seed)
        self.order, self.share = order, share

    def epoch(self, number: int) -> Sequence[Indices]:
        """The first rows of each batch."""
        whole = self.order.window(number, 0)
        return Computed(len(whole), lambda n: whole[n][: max(round(self.share * len(whole[n])), 1)])


class _TooLongError(Exception):
    """The deadline is past."""


@contextmanager
def _deadline(at: float) -> Iterator[None]:
    """Raise _TooLongError at the first layer that is called after this time."""

    def check(module: nn.Module, given: Any) -> None:
        if time.perf_counter() > at:
            raise _TooLongError

    hook = torch.nn.modules.module.register_module_forward_pre_hook(check)
    try:
        yield
    finally:
        hook.remove()
