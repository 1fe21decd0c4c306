"""Which checkpoint is the best one: by the validation figure that the task names, of equal ones by the lower loss."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from headway.tasks.training_task import LOWEST_LOSS, Criterion, Selective, TrainingTask

BY, VALUE, HIGHER = "best_by", "best_value", "best_is_higher"  # in trainer.json, where it is not the loss


@dataclass(frozen=True, slots=True)
class BestCheckpoint:
    """The best checkpoint so far: its step (0 before the first one), its validation loss and its figure."""

    step: int = 0
    loss: float = math.inf
    criterion: Criterion = LOWEST_LOSS
    value: float | None = None  # of the criterion's figure; None if that is the loss, or is not known

    @property
    def figure(self) -> float:
        """What it was chosen by."""
        return self.loss if self.value is None else self.value

    @property
    def described(self) -> str:
        """For people: "validation accuracy 0.7333, loss 0.8480"."""
        loss = f"loss {self.loss:.4f}"
        return (
            f"validation {loss}"
            if self.value is None
            else f"validation {self.criterion.title} {self.value:.4f}, {loss}"
        )

    def after(self, entry: Mapping[str, Any]) -> BestCheckpoint:
        """This one, or the checkpoint of a log entry of an evaluation if it is better."""
        loss, value = entry["val_loss"], entry.get(self.criterion.figure, math.nan)
        if not (math.isfinite(loss) and math.isfinite(value)):
            return self
        plain = self.criterion == LOWEST_LOSS
        new = BestCheckpoint(entry["step"], loss, self.criterion, None if plain else float(value))
        return new if self.step == 0 or new._rank < self._rank else self

    @property
    def _rank(self) -> tuple[float, float]:
        """The better, the lower; one whose figure is not known is the worst."""
        if self.criterion == LOWEST_LOSS:
            return self.loss, 0.0
        value = -math.inf if self.value is None else self.value if self.criterion.higher else -self.value
        return -value, self.loss

    def to_json(self) -> dict[str, Any]:
        """The entries of trainer.json."""
        facts: dict[str, Any] = {"best": self.loss, "best_step": self.step}
        if self.value is not None:
            facts |= {BY: self.criterion.figure, VALUE: self.value, HIGHER: self.criterion.higher}
        return facts


def criterion_of(task: TrainingTask) -> Criterion:
    """What the best checkpoint of a task is chosen by: the loss, unless the task names a figure."""
    return task.criterion if isinstance(task, Selective) else LOWEST_LOSS


def best_in(facts: Mapping[str, Any]) -> BestCheckpoint | None:
    """The best checkpoint as a trainer.json has it, also one of older versions; None where it does not say."""
    step, loss = facts.get("best_step"), facts.get("best")
    if type(step) is not int or step <= 0 or not isinstance(loss, float):
        return None
    figure, value, higher = facts.get(BY), facts.get(VALUE), facts.get(HIGHER)
    if isinstance(figure, str) and isinstance(value, float) and isinstance(higher, bool):
        return BestCheckpoint(step, loss, Criterion(figure, higher), value)
    return BestCheckpoint(step, loss)


def resumed_best(
    found: BestCheckpoint | None, criterion: Criterion, log: Iterable[Mapping[str, Any]]
) -> BestCheckpoint:
    """The best checkpoint to go on with; where another figure chose it, as in older versions, the log has this one."""
    if found is None:
        return BestCheckpoint(criterion=criterion)
    if found.criterion == criterion:
        return found
    if criterion == LOWEST_LOSS:
        return BestCheckpoint(found.step, found.loss)
    logged = [entry.get(criterion.figure) for entry in log if entry["step"] == found.step and "val_loss" in entry]
    value = logged[-1] if logged and isinstance(logged[-1], float) else None
    return BestCheckpoint(found.step, found.loss, criterion, value)
