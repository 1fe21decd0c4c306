"""What the trainer knows of a problem: batches, a loss in named terms, an evaluation, a few samples."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headway.counts import figure_name
from headway.data.batching import Indices, Order
from headway.ops import linear_cross_entropy

IGNORED = -100  # targets with this value carry no loss


@dataclass(frozen=True, slots=True)
class Batch:
    """What the model is given, what it should say, and how many of those targets count."""

    inputs: tuple[Tensor | None, ...]
    targets: Tensor
    count: int

    def to(self, device: torch.device) -> Batch:
        """The same batch on a device."""
        moved = tuple(None if x is None else x.to(device, non_blocking=True) for x in self.inputs)
        return Batch(moved, self.targets.to(device, non_blocking=True), self.count)


@dataclass(frozen=True, slots=True)
class Term:
    """One term of a loss: a sum, the number of its summands, and its weight relative to the other terms."""

    total: Tensor
    count: int
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class Validated:
    """A validation: nats per target, and other figures by their log name, one of which may choose the best checkpoint.

    `tuned` has settings of the finished run that were chosen on the validation split for these weights, by name; they
    are kept in the checkpoint.
    """

    loss: float
    beside: dict[str, float]
    tuned: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Criterion:
    """The validation figure that chooses the best checkpoint; of checkpoints with the same one, the lower loss does."""

    figure: str  # its name in the log
    higher: bool  # whether the highest is the best

    @property
    def title(self) -> str:
        """Its name for people: "accuracy", "F1"."""
        return figure_name(self.figure)

    @property
    def described(self) -> str:
        """For people: "the highest validation accuracy"."""
        return f"the {'highest' if self.higher else 'lowest'} validation {self.title}"


LOWEST_LOSS = Criterion("val_loss", higher=False)
HIGHEST_ACCURACY = Criterion("val_accuracy", higher=True)
HIGHEST_F1 = Criterion("val_f1", higher=True)


class TrainingTask(Protocol):
    """A task with its data, as the trainer sees it."""

    @property
    def splits(self) -> Mapping[str, Any]:
        """The data by the names of its splits."""
        ...

    @property
    def fixed_shapes(self) -> bool:
        """Whether every batch has the same shape, so that what is compiled once serves them all."""
        ...

    @property
    def order(self) -> Order:
        """Which sequences make which batch, epoch after epoch."""
        ...

    def batch(self, indices: Indices) -> Batch:
        """The training batch of these sequences."""
        ...

    def loss(self, model: nn.Module, batch: Batch, *, smoothing: float = 0.0, step: int = 0) -> dict[str, Term]:
        """The loss of a batch, in named terms; `step` counts the steps taken, for what changes as training goes on."""
        ...

    def validate(self, model: nn.Module, device: torch.device) -> float | Validated:
        """Nats per target over the whole validation split, alone or with more to log."""
        ...

    def samples(self, model: nn.Module, device: torch.device) -> list[str]:
        """A few lines that show what the model can do."""
        ...


@runtime_checkable
class Capturable(Protocol):
    """A task whose step a GPU may replay: batches alike in shape, all randomness from one stream."""

    @property
    def resident(self) -> bool:
        """Whether a batch is small: tokens, or indices of data that is already on the device."""
        ...

    @property
    def most_targets(self) -> int | None:
        """At most so many targets of a batch count, if their number varies; None: it is the same in every batch.

        The loss is then given a batch whose count is a tensor (), which it must not read.
        """
        ...

    def stream(self, step: int, device: torch.device) -> torch.Generator | None:
        """What the losses of a step draw from, put to where that step begins; None if they draw nothing.

        Dropout's own stream is apart.
        """
        ...


@runtime_checkable
class Selective(Protocol):
    """A task whose best checkpoint is chosen by another figure of its validation than the loss.

    The loss of a classifier rises with its confidence while it still makes fewer mistakes.
    """

    @property
    def criterion(self) -> Criterion:
        """The figure."""
        ...


@dataclass(frozen=True, slots=True)
class Phase:
    """What a step of training is for, and its share of the learning rate."""

    name: str
    rate: float


@runtime_checkable
class Phased(Protocol):
    """A task with phases. Each has parameters of its own: those that a loss does not reach are left as they are."""

    def phase(self, model: nn.Module, step: int, device: torch.device) -> Phase:
        """The phase of the next step, after `step` steps; prepares its data."""
        ...


@runtime_checkable
class Stateful(Protocol):
    """A task that keeps tensors between steps, without which a resumed run would not repeat bit by bit."""

    def state(self) -> dict[str, Tensor]:
        """The tensors, by name, for a checkpoint."""
        ...

    def restore(self, state: dict[str, Tensor]) -> None:
        """Continue with the tensors of a checkpoint; none if it has none."""
        ...


class Predictor(Protocol):
    """A model with a separate output layer, so that a loss need not compute every logit."""

    def features(self, *inputs: Tensor | None) -> Tensor:
        """What the output layer reads (B, T, D)."""
        ...

    def output(self) -> tuple[Tensor, Tensor | None]:
        """The output layer's matrix (V, D) and bias."""
        ...


def next_token_loss(model: nn.Module, batch: Batch, smoothing: float = 0.0) -> Tensor:
    """The summed loss in nats of a batch's targets; the output layer sees no position without one."""
    predictor: Predictor = model  # type: ignore[assignment]
    return chosen_loss(predictor.features(*batch.inputs), predictor.output(), batch.targets, batch.count, smoothing)


def chosen_loss(
    x_BTD: Tensor,
    output: tuple[Tensor, Tensor | None],
    targets_BT: Tensor,
    count: int | Tensor,
    smoothing: float,
    *,
    most: int | None = None,
) -> Tensor:
    """The summed cross-entropy of the `count` targets that are not IGNORED.

    A count that is a tensor () is not read: `most` rows are computed then, those with a target first.
    """
    if isinstance(count, Tensor):
        targets_N = targets_BT.flatten()
        order_N = torch.argsort((targets_N == IGNORED).to(torch.uint8), stable=True)[:most]
        return linear_cross_entropy(x_BTD.flatten(0, 1)[order_N], *output, targets_N[order_N], smoothing=smoothing)
    if count == targets_BT.numel():
        return linear_cross_entropy(x_BTD.flatten(0, 1), *output, targets_BT.flatten(), smoothing=smoothing)
    chosen = targets_BT != IGNORED
    return linear_cross_entropy(x_BTD[chosen], *output, targets_BT[chosen], smoothing=smoothing)


def cross_entropy(logits: Tensor, targets: Tensor, smoothing: float = 0.0) -> Tensor:
    """The summed loss in nats, ignored targets left out; in float32 at least."""
    logits = logits.flatten(0, -2)
    exact = logits.to(torch.promote_types(logits.dtype, torch.float32))
    return F.cross_entropy(exact, targets.flatten(), ignore_index=IGNORED, reduction="sum", label_smoothing=smoothing)
