"""Training on sets of vectors: cross-entropy of classes, or the squared error of numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from headway.data.batching import Bucketed, Indices, like_length
from headway.data.vector_files import Floats, VectorSets
from headway.metrics.classification import ClassificationReport
from headway.metrics.regression import RegressionReport, regression_report
from headway.tasks.base import named_split
from headway.tasks.classifier import ClassifierTraining, Predictions
from headway.tasks.sharing import in_one, values_in_parts
from headway.tasks.training_task import IGNORED, Batch, Term, Validated, cross_entropy

EVALUATED = 16_384  # elements in one forward pass of an evaluation, padding included
SHOWN = 3  # samples of a validation


def padded_vectors(sets: list[Floats]) -> tuple[Tensor, Tensor]:
    """Sets (T, N) -> vectors (B, T, N) with zeros as padding, and lengths (B,)."""
    lengths = np.asarray([len(rows) for rows in sets], np.int64)
    vectors = np.zeros((len(sets), int(lengths.max()), sets[0].shape[1]), np.float32)
    for row, each in enumerate(sets):
        vectors[row, : len(each)] = each
    return torch.from_numpy(vectors), torch.from_numpy(lengths)


class VectorTraining:
    """Batches of sets of like length; a batch has at most `batch_tokens` elements."""

    fixed_shapes = False

    def __init__(
        self, splits: Mapping[str, VectorSets], targets: Mapping[str, NDArray[Any]], *, batch_tokens: int, seed: int
    ) -> None:
        self.splits, self.targets = dict(splits), dict(targets)
        self.starts = {name: sets.starts for name, sets in self.splits.items()}
        some = "train" if "train" in self.splits else next(iter(self.splits))
        self.order = Bucketed(self.splits[some].lengths, batch_tokens, seed)

    def batch(self, indices: Indices) -> Batch:
        """Vectors (B, T, N) and lengths (B,) of these sets, and their targets."""
        return self.sets("train", indices)

    def sets(self, split: str, indices: Indices) -> Batch:
        """These sets of a split."""
        found, starts = self.splits[split], self.starts[split]
        rows = [found.rows[starts[n] : starts[n] + found.lengths[n]] for n in indices]
        return Batch(padded_vectors(rows), *self.batch_targets(split, indices))

    def batch_targets(self, split: str, indices: Indices) -> tuple[Tensor, int]:
        """Targets of these sets, and how many there are."""
        return torch.from_numpy(self.targets[split][indices]), len(indices)

    def split(self, name: str) -> VectorSets:
        """A split. Raises DataError for an unknown one."""
        return named_split(self.splits, name)

    def loss(self, model: nn.Module, batch: Batch, *, smoothing: float = 0.0, step: int = 0) -> dict[str, Term]:
        """The loss of a batch."""
        raise NotImplementedError

    def validate(self, model: nn.Module, device: torch.device) -> Validated:
        """The loss of the validation split, and a figure beside it."""
        raise NotImplementedError

    def samples(self, model: nn.Module, device: torch.device) -> list[str]:
        """What some sets of the validation split are taken for."""
        raise NotImplementedError

    def _some(self, device: torch.device) -> Batch:
        """A few sets of the validation split, evenly spaced."""
        numbers = np.unique(np.linspace(0, len(self.splits["val"]) - 1, SHOWN).astype(np.int64))
        return self.sets("val", numbers).to(device)


class SetClassification(VectorTraining, ClassifierTraining):
    """Sets, or their elements, with a class each."""

    def __init__(
        self,
        splits: Mapping[str, VectorSets],
        targets: Mapping[str, NDArray[Any]],
        classes: tuple[str, ...],
        unit: str,
        *,
        batch_tokens: int,
        seed: int,
    ) -> None:
        super().__init__(splits, targets, batch_tokens=batch_tokens, seed=seed)
        self.classes, self.unit = classes, unit  # type: ignore[misc]  # of each task its own

    @property
    def by_element(self) -> bool:
        """Whether each element has a class."""
        return any(sets.by_element for sets in self.splits.values())

    def batch_targets(self, split: str, indices: Indices) -> tuple[Tensor, int]:
        """Classes (B,), or those of the elements (B, T), padded with IGNORED, and how many there are."""
        if not self.by_element:
            return super().batch_targets(split, indices)
        lengths, starts = self.splits[split].lengths[indices], self.starts[split][indices]
        labels = np.full((len(indices), int(lengths.max())), IGNORED, np.int64)
        for row, (start, length) in enumerate(zip(starts.tolist(), lengths.tolist(), strict=True)):
            labels[row, :length] = self.targets[split][start : start + length]
        return torch.from_numpy(labels), int(lengths.sum())

    def loss(self, model: nn.Module, batch: Batch, *, smoothing: float = 0.0, step: int = 0) -> dict[str, Term]:
        """Cross-entropy of the classes."""
        return {"class": Term(cross_entropy(model(*batch.inputs), batch.targets, smoothing), batch.count)}

    def validate(self, model: nn.Module, device: torch.device) -> Validated:
        """Nats per set or element, and the accuracy."""
        return ClassifierTraining.validate(self, model, device)

    def evaluate(self, model: nn.Module, device: torch.device, split: str) -> ClassificationReport:
        """The figures of a split."""
        return ClassifierTraining.evaluate(self, model, device, split)

    @torch.no_grad()
    def predictions(self, model: nn.Module, device: torch.device, split: str) -> Predictions:
        """What the model makes of each set, or each element, of a split, in their order."""
        sets, targets = self.split(split), self.targets[split]
        chances = torch.zeros(len(targets), len(self.classes))

        def scored(numbers: Indices) -> Tensor:
            batch = self.sets(split, numbers).to(device)
            logits = model(*batch.inputs).float()
            nats = F.cross_entropy(logits.flatten(0, -2), batch.targets.flatten(), reduction="sum")
            return in_one(nats, logits.softmax(-1))

        batches = list(like_length(sets.lengths, EVALUATED))
        found = values_in_parts(batches, scored)
        for numbers, values in zip(batches, found, strict=True):
            shares = values[1:].view(len(numbers), -1, len(self.classes)).float()
            if not self.by_element:
                chances[torch.from_numpy(numbers)] = shares[:, 0]
                continue
            for row, n in enumerate(numbers):
                start, length = int(self.starts[split][n]), int(sets.lengths[n])
                chances[start : start + length] = shares[row, :length]
        return Predictions(chances, torch.from_numpy(targets), sum(float(values[0]) for values in found))

    @torch.no_grad()
    def samples(self, model: nn.Module, device: torch.device) -> list[str]:
        """What some sets, or their first elements, are taken for."""
        batch = self._some(device)
        logits = model(*batch.inputs).float()
        first = (logits[:, 0], batch.targets[:, 0]) if self.by_element else (logits, batch.targets)
        return [self.sample(int(label), each) for each, label in zip(*first, strict=True)]


@dataclass(frozen=True, slots=True)
class PredictedNumbers:
    """A model's numbers for a split (S,), beside the true ones (S,)."""

    found: NDArray[np.float64]
    true: NDArray[np.float64]


class SetRegression(VectorTraining):
    """Sets with a number each; the loss is in units of the variance of the training split."""

    def loss(self, model: nn.Module, batch: Batch, *, smoothing: float = 0.0, step: int = 0) -> dict[str, Term]:
        """The squared error in units of the model's deviation."""
        numbers = model(*batch.inputs).squeeze(-1)
        off = (numbers.float() - batch.targets.float()) / model.deviation
        return {"number": Term(off.square().sum(), batch.count)}

    def batch_targets(self, split: str, indices: Indices) -> tuple[Tensor, int]:
        """Numbers (B,)."""
        return torch.from_numpy(self.targets[split][indices].astype(np.float32)), len(indices)

    @torch.no_grad()
    def predictions(self, model: nn.Module, device: torch.device, split: str) -> PredictedNumbers:
        """The model's number for each set of a split."""
        sets = self.split(split)
        found = np.zeros(len(sets))

        def computed(numbers: Indices) -> Tensor:
            made: Tensor = model(*self.sets(split, numbers).to(device).inputs)
            return in_one(made)

        batches = list(like_length(sets.lengths, EVALUATED))
        for numbers, values in zip(batches, values_in_parts(batches, computed), strict=True):
            found[numbers] = values.numpy()
        return PredictedNumbers(found, self.targets[split])

    def report(self, predictions: PredictedNumbers) -> RegressionReport:
        """The figures of predictions."""
        return regression_report(predictions.found, predictions.true)

    def validate(self, model: nn.Module, device: torch.device) -> Validated:
        """The squared error of the validation split, in units of the model's deviation, and RMSE."""
        report = self.report(self.predictions(model, device, "val"))
        return Validated(report.mse / float(model.deviation) ** 2, {"val_rmse": report.rmse})  # type: ignore[arg-type]

    @torch.no_grad()
    def samples(self, model: nn.Module, device: torch.device) -> list[str]:
        """Numbers of some sets beside the true ones."""
        batch = self._some(device)
        numbers = model(*batch.inputs).squeeze(-1).tolist()
        return [
            f"{true:.4g}: taken for {found:.4g}" for found, true in zip(numbers, batch.targets.tolist(), strict=True)
        ]
