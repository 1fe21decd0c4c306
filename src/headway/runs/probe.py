"""How fast this machine trains a model: a few steps of a throwaway copy, on parts of real batches."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from headway.data.batching import Indices, Order
from headway.models import build_model
from headway.runs.config import RunConfig
from headway.tasks.training_task import TrainingTask
from headway.training.callbacks import SilentCallback
from headway.training.trainer import Trainer

MOST_STEPS = 20  # in one measurement
SMALL = 1 / 8  # of a batch: what is measured first


class StepTimes:
    """The seconds that a micro-batch takes, by its size as a share of the config's; measured when asked for.

    Steps are taken by a separate trainer on a separate model: no part of them belongs to a run. `patience` is how
    many seconds a measurement may take beyond the three steps that it needs at least.
    """

    def __init__(self, config: RunConfig, task: TrainingTask, folder: Path, patience: float) -> None:
        train = replace(config.train, accumulate=1, compile=False, non_finite="skip")
        model = build_model(config.model, seed=config.train.seed)
        self.task, self.folder, self.patience = task, folder, patience
        self.trainer = Trainer(model, task, train, folder, SilentCallback())
        self.small = self._measured(SMALL)
        self.slope: float | None = None

    def seconds(self, share: float) -> float:
        """Of a micro-batch of this share. Beyond `patience` a whole one is not tried, but taken from a small one."""
        if self.slope is None:
            whole = self.small / SMALL
            if whole <= 4 * self.patience:
                whole = self._measured(1.0)
            self.slope = max(whole - self.small, 0.0) / (1 - SMALL)
        return max(self.small + self.slope * (share - SMALL), 0.5 * self.small)

    def _measured(self, share: float) -> float:
        self.trainer.task = _Part(self.task, share)
        self.trainer.batches = self.trainer.task.order.after(self.trainer.cursor)
        seconds = self._step()
        if seconds > self.patience:
            return seconds  # the first one, which also allocates: slower rather than faster
        taken = [self._step(), self._step()]
        while sum(taken) < self.patience and len(taken) < MOST_STEPS:
            taken.append(self._step())
        return statistics.median(taken)  # not the mean: another process may take the machine for one of them

    def _step(self) -> float:
        started = time.perf_counter()
        self.trainer.advance()
        return time.perf_counter() - started

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

    def epoch(self, number: int) -> list[Indices]:
        """The first rows of each batch."""
        return [batch[: max(round(self.share * len(batch)), 1)] for batch in self.order.epoch(number)]


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
