"""What classifiers of images, texts and sets share: predictions, and the figures of a split."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor, nn

from headway.decoding.non_finite import expect_finite
from headway.metrics.classification import ClassificationReport, confusion_matrix
from headway.tasks.training_task import HIGHEST_ACCURACY, Criterion, Validated

if TYPE_CHECKING:
    from headway.data.image_decoding import Pixels


@dataclass(frozen=True, slots=True)
class Prediction:
    """The likeliest classes of one input with their probabilities, best first; or the number predicted for it."""

    given: str  # the file of an image or a sound, a text, or FILE:SET; of a pair, both texts with a tab between them
    top: list[tuple[str, float]]  # empty for a number
    pixels: Pixels | None = None  # (C, H, W): the image as the model read it; None for a text
    labels: tuple[str, ...] | None = None  # where an input may have several classes: those above the threshold
    number: float | None = None  # what a model of numbers predicts
    pair: tuple[str, str] | None = None  # the two texts of a pair
    words: tuple[tuple[str, float], ...] | None = None  # each word with what it adds to the answer, if asked for

    @property
    def image(self) -> str:
        """The file that was classified."""
        return self.given

    @property
    def text(self) -> str:
        """The text that was classified."""
        return self.given

    @property
    def line(self) -> str:
        """For people: the input, what it was taken for, and the probabilities, with tabs between them."""
        chances = [f"{name} {share:.1%}" for name, share in self.top]
        if self.labels is not None:
            chances.insert(0, ", ".join(self.labels) or "none")
        if self.number is not None:
            chances.insert(0, f"{self.number:.6g}")
        return "\t".join([" ".join(self.given.splitlines()), *chances])

    @property
    def word_lines(self) -> list[str]:
        """For people, below the line: each word with what it adds, in points of probability, or to the number."""
        return [
            f"  {f'{change:+.4g}' if self.number is not None else f'{100 * change:+.1f}'}\t{word}"
            for word, change in self.words or ()
        ]

    def to_json(self, name: str) -> dict[str, Any]:
        """For machines; `name` is what the input is called: "image" or "text"."""
        told: dict[str, Any] = {name: self.given}
        if self.pair is not None:
            told = {name: self.pair[0], f"{name}2": self.pair[1]}
        if self.words is not None:
            told["words"] = [list(each) for each in self.words]
        if self.number is not None:
            return {**told, "number": self.number}
        if self.labels is not None:
            return {**told, "labels": list(self.labels), "probabilities": dict(self.top)}
        best, share = self.top[0]
        return {**told, "class": best, "probability": share, "top": dict(self.top)}


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
    """A model's predictions on a split: probabilities (N, classes) and true classes (N,), on the CPU.

    Of texts with several labels, those are (N, classes) of 0 and 1; of numbers, predicted (N, 1) and true (N,) ones.
    """

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
    criterion: ClassVar[Criterion] = HIGHEST_ACCURACY
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
