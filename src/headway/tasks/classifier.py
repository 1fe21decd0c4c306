"""What classifiers of images, texts and sets share: predictions, and the figures of a split."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor, nn

from headway.decoding.non_finite import expect_finite
from headway.metrics.classification import ClassificationReport, confusion_matrix
from headway.tasks.training_task import Validated

if TYPE_CHECKING:
    from headway.data.image_decoding import Pixels


@dataclass(frozen=True, slots=True)
class Prediction:
    """The likeliest classes of one input with their probabilities, best first."""

    given: str  # the file of an image or a sound, a text, or FILE:SET
    top: list[tuple[str, float]]  # empty where a number is predicted
    pixels: Pixels | None = None  # (C, H, W): the image as the model read it; None for a text
    number: float | None = None  # of a model that predicts a number

    @property
    def image(self) -> str:
        """The file that was classified."""
        return self.given

    @property
    def text(self) -> str:
        """The text that was classified."""
        return self.given


def likeliest(probabilities: Tensor, classes: tuple[str, ...], top: int) -> list[list[tuple[str, float]]]:
    """Probabilities (N, classes) -> for each row the `top` likeliest classes by name, best first.

    Raises NonFiniteOutputError for a row that is NaN.
    """
    best = probabilities.topk(min(top, len(classes)))
    expect_finite(best.values[:, 0], "input")  # one NaN or infinite logit makes all probabilities of its row NaN
    rows = zip(best.values.tolist(), best.indices.tolist(), strict=True)
    return [[(classes[n], share) for n, share in zip(indices, shares, strict=True)] for shares, indices in rows]


@dataclass(frozen=True, slots=True)
class Predictions:
    """A model's predictions on a split: probabilities (N, classes) and true classes (N,), on the CPU."""

    probabilities: Tensor  # float32
    labels: Tensor
    nats: float  # the summed loss

    @property
    def predicted(self) -> Tensor:
        """The likeliest class of each input (N,)."""
        return self.probabilities.argmax(1)


class ClassifierTraining:
    """The part of a training task that all classifiers share."""

    unit: ClassVar[str] = "images"  # what is classified, as reports call it
    classes: tuple[str, ...]

    def predictions(self, model: nn.Module, device: torch.device, split: str) -> Predictions:
        """The model's predictions on a split."""
        raise NotImplementedError

    def validate(self, model: nn.Module, device: torch.device) -> Validated:
        """Nats per input over the whole validation split, and the accuracy."""
        report = self.evaluate(model, device, "val")
        return Validated(report.loss, {"val_accuracy": report.accuracy})

    def evaluate(self, model: nn.Module, device: torch.device, split: str) -> ClassificationReport:
        """The figures of a split, without augmentation."""
        return self.report(self.predictions(model, device, split))

    def report(self, predictions: Predictions) -> ClassificationReport:
        """The figures of predictions: accuracy, loss, confusion matrix."""
        counted = confusion_matrix(predictions.labels.numpy(), predictions.predicted.numpy(), len(self.classes))
        return ClassificationReport(classes=self.classes, confusion=counted, nats=predictions.nats, unit=self.unit)

    def sample(self, label: int, logits: Tensor) -> str:
        """A line for the log: a class beside the predicted one, from logits (classes,)."""
        best, which = logits.softmax(-1).max(-1)
        return f"{self.classes[label]}: taken for {self.classes[int(which)]} ({float(best):.0%})"
