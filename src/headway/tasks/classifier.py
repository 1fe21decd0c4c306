"""What any classifier, of images or of texts, is judged by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from headway.metrics.classification import ClassificationReport, confusion_matrix
from headway.tasks.training_task import Validated


@dataclass(frozen=True, slots=True)
class Guesses:
    """What a model makes of things: probabilities (N, classes), on the CPU in float32, and their classes (N,)."""

    probabilities: Tensor
    labels: Tensor
    nats: float

    @property
    def predicted(self) -> Tensor:
        """The likeliest class of each (N,)."""
        return self.probabilities.argmax(1)


class Judged:
    """A task whose model names one class of several."""

    unit: ClassVar[str] = "images"  # what is classified, as reports call it
    classes: tuple[str, ...]

    def guesses(self, model: nn.Module, device: torch.device, split: str) -> Guesses:
        """What the model makes of a split."""
        raise NotImplementedError

    def validate(self, model: nn.Module, device: torch.device) -> Validated:
        """Nats per image or text over the whole validation split, and the share that is right."""
        report = self.evaluate(model, device, "val")
        return Validated(report.loss, {"val_accuracy": report.accuracy})

    def evaluate(self, model: nn.Module, device: torch.device, split: str) -> ClassificationReport:
        """Everything in a split, once, as it is."""
        return self.report(self.guesses(model, device, split))

    def report(self, guesses: Guesses) -> ClassificationReport:
        """What guesses are worth."""
        counted = confusion_matrix(guesses.labels.numpy(), guesses.predicted.numpy(), len(self.classes))
        return ClassificationReport(classes=self.classes, confusion=counted, nats=guesses.nats, unit=self.unit)

    def said(self, label: int, logits: Tensor) -> str:
        """A class beside what was taken for it, from logits (classes,)."""
        best, which = logits.softmax(-1).max(-1)
        return f"{self.classes[label]}: taken for {self.classes[int(which)]} ({float(best):.0%})"
