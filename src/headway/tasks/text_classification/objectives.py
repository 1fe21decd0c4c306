"""What a label is: one class, several classes or a number, each with its loss, its answer and its figures.

Losses are summed over the texts of a batch. One class: cross-entropy. Several: binary cross-entropy with logits, the
mean over the classes of a text. A number: the squared error in units of the variance of the training labels, so that
always answering their mean has a loss of 1. Class weights multiply the loss of a text (one class) or of the texts that
have the class (several), as `weight` and `pos_weight` do in torch; the loss of a validation has no weights.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from headway.decoding.non_finite import expect_finite
from headway.errors import ConfigError
from headway.tasks.classifier import Prediction, Predictions, likeliest
from headway.tasks.training_task import HIGHEST_ACCURACY, LOWEST_LOSS, Criterion

if TYPE_CHECKING:
    from headway.data.labelled_text import TextSplit
    from headway.tasks.text_classification.baseline import Baselines
    from headway.tasks.text_classification.config import TextClassification
    from headway.tasks.text_classification.evaluation import Evaluated
    from headway.tasks.verification_inputs import Named

TOP = 5  # classes of an answer
MANY = 3  # decimals of a sample


class Objective(ABC):
    """A kind of label. Logits and what is made of them are (N, size), on any device."""

    names: Named = "class"  # what an output of the model stands for, for `verify`
    problem_type = "single_label_classification"  # as transformers calls it
    criterion: Criterion  # what the best checkpoint is chosen by
    shows_classes = False  # whether the outputs are one distribution, which the page of `look` can show

    def __init__(self, classes: tuple[str, ...], size: int) -> None:
        self.classes, self.size = classes, size

    @abstractmethod
    def targets(self, labels: NDArray[np.generic]) -> Tensor:
        """Labels of a split as the loss takes them."""

    @abstractmethod
    def loss(self, logits: Tensor, targets: Tensor, smoothing: float) -> Tensor:
        """The summed training loss."""

    @abstractmethod
    def plain_loss(self, logits: Tensor, targets: Tensor) -> Tensor:
        """The summed loss without weights and smoothing."""

    @abstractmethod
    def answers(self, logits: Tensor) -> Tensor:
        """Probabilities of the classes, or the number: (N, size)."""

    @abstractmethod
    def predictions(self, logits: Tensor, top: int | None) -> list[Prediction]:
        """What each row is taken for, without its input. Raises NonFiniteOutputError for a row that is NaN."""

    @abstractmethod
    def sample(self, target: Tensor, answer: Tensor) -> str:
        """For the log: a label (), or (classes,), beside what the model answers (size,)."""

    @abstractmethod
    def evaluated(self, found: Predictions) -> Evaluated:
        """The figures of a split."""

    def baselines(self, train: TextSplit, split: TextSplit, vocab: int) -> Baselines | None:
        """What simple classifiers of the same texts have right; None of several labels and of numbers."""
        return None


class SingleLabel(Objective):
    """One class a text."""

    criterion = HIGHEST_ACCURACY
    shows_classes = True

    def __init__(self, classes: tuple[str, ...], weights: Tensor | None = None) -> None:
        super().__init__(classes, len(classes))
        self.weights = weights

    def targets(self, labels: NDArray[np.generic]) -> Tensor:
        return torch.from_numpy(labels.astype(np.int64))

    def loss(self, logits: Tensor, targets: Tensor, smoothing: float) -> Tensor:
        weights = None if self.weights is None else self.weights.to(logits.device)
        return F.cross_entropy(logits.float(), targets, weights, reduction="sum", label_smoothing=smoothing)

    def plain_loss(self, logits: Tensor, targets: Tensor) -> Tensor:
        return F.cross_entropy(logits.float(), targets, reduction="sum")

    def answers(self, logits: Tensor) -> Tensor:
        return logits.float().softmax(-1)

    def predictions(self, logits: Tensor, top: int | None) -> list[Prediction]:
        return [Prediction("", best) for best in likeliest(self.answers(logits), self.classes, top or TOP)]

    def sample(self, target: Tensor, answer: Tensor) -> str:
        best, which = answer.max(-1)
        return f"{self.classes[int(target)]}: taken for {self.classes[int(which)]} ({float(best):.0%})"

    def evaluated(self, found: Predictions) -> Evaluated:
        from headway.tasks.text_classification.evaluation import single_label

        return single_label(found, self.classes)

    def baselines(self, train: TextSplit, split: TextSplit, vocab: int) -> Baselines | None:
        from headway.tasks.text_classification.baseline import baselines

        return baselines(train, split, self.size, vocab)


class MultiLabel(Objective):
    """Any number of classes a text, each by itself."""

    criterion = Criterion("val_micro_f1", higher=True)
    problem_type = "multi_label_classification"

    def __init__(self, classes: tuple[str, ...], threshold: float, weights: Tensor | None = None) -> None:
        super().__init__(classes, len(classes))
        self.threshold, self.weights = threshold, weights

    def targets(self, labels: NDArray[np.generic]) -> Tensor:
        return torch.from_numpy(labels.astype(np.float32))

    def loss(self, logits: Tensor, targets: Tensor, smoothing: float) -> Tensor:
        weights = None if self.weights is None else self.weights.to(logits.device)
        soft = targets * (1 - smoothing) + smoothing / 2
        each = F.binary_cross_entropy_with_logits(logits.float(), soft, reduction="none", pos_weight=weights)
        return each.mean(-1).sum()

    def plain_loss(self, logits: Tensor, targets: Tensor) -> Tensor:
        return F.binary_cross_entropy_with_logits(logits.float(), targets, reduction="none").mean(-1).sum()

    def answers(self, logits: Tensor) -> Tensor:
        return logits.float().sigmoid()

    def predictions(self, logits: Tensor, top: int | None) -> list[Prediction]:
        chances = self.answers(logits)
        expect_finite(chances, "input")
        every = likeliest(chances, self.classes, len(self.classes))
        return [
            Prediction("", best[:top], labels=tuple(name for name, share in best if share >= self.threshold))
            for best in every
        ]

    def sample(self, target: Tensor, answer: Tensor) -> str:
        return f"{self._named(target >= 0.5)}: taken for {self._named(answer >= self.threshold)}"

    def _named(self, chosen: Tensor) -> str:
        return ", ".join(name for name, there in zip(self.classes, chosen.tolist(), strict=True) if there) or "none"

    def evaluated(self, found: Predictions) -> Evaluated:
        from headway.tasks.text_classification.evaluation import multi_label

        return multi_label(found, self.classes, self.threshold)


class Number(Objective):
    """A number a text; the model answers in the labels' own unit."""

    criterion = LOWEST_LOSS  # the squared error
    problem_type = "regression"

    names: Named = None

    def __init__(self, scale: float) -> None:
        super().__init__((), 1)
        self.scale = scale

    def targets(self, labels: NDArray[np.generic]) -> Tensor:
        return torch.from_numpy(labels.astype(np.float32))

    def loss(self, logits: Tensor, targets: Tensor, smoothing: float) -> Tensor:
        return self.plain_loss(logits, targets)

    def plain_loss(self, logits: Tensor, targets: Tensor) -> Tensor:
        return ((logits.float().squeeze(-1) - targets) / self.scale).square().sum()

    def answers(self, logits: Tensor) -> Tensor:
        return logits.float()

    def predictions(self, logits: Tensor, top: int | None) -> list[Prediction]:
        expect_finite(logits, "input")
        return [Prediction("", [], number=value) for value in self.answers(logits)[:, 0].tolist()]

    def sample(self, target: Tensor, answer: Tensor) -> str:
        return f"{float(target):.{MANY + 1}g}: predicted {float(answer):.{MANY + 1}g}"

    def evaluated(self, found: Predictions) -> Evaluated:
        from headway.tasks.text_classification.evaluation import numbers

        return numbers(found)


def objective(
    config: TextClassification, classes: tuple[str, ...], *, scale: float = 1.0, weights: Tensor | None = None
) -> Objective:
    """The objective of a config's labels."""
    if config.labels == "number":
        return Number(scale)
    if config.labels == "multi":
        return MultiLabel(classes, config.threshold, weights)
    return SingleLabel(classes, weights)


def class_weights(config: TextClassification, classes: tuple[str, ...], labels: NDArray[np.generic]) -> Tensor | None:
    """The weight of each class (classes,), from training labels (N,) or (N, classes); None for equal ones.

    Balanced, of one class: N / (classes · texts of the class), scikit-learn's formula, whose mean over the texts is 1.
    Of several: texts without the class (at least one: a weight of 0 would leave it untrained) / texts with it.
    A class without training texts has 1. Raises ConfigError for a name that is not a class.
    """
    if config.class_weights is None:
        return None
    given = config.given_weights()
    if unknown := [name for name in given if name not in classes]:
        raise ConfigError(f"task.class_weights: no class {unknown[0]!r}; there are: {', '.join(classes[:20])}")
    if given:
        return torch.tensor([given.get(name, 1.0) for name in classes])
    return torch.from_numpy(_balanced(config, len(classes), labels).astype(np.float32))


def _balanced(config: TextClassification, size: int, labels: NDArray[np.generic]) -> NDArray[np.float64]:
    if config.labels == "multi":
        having: NDArray[np.float64] = labels.astype(np.float64).sum(0)
        return np.where(having > 0, np.maximum(len(labels) - having, 1.0) / np.maximum(having, 1.0), 1.0)
    there = np.bincount(labels.astype(np.int64), minlength=size).astype(np.float64)
    return np.where(there > 0, len(labels) / (size * np.maximum(there, 1.0)), 1.0)
