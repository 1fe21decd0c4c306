"""What the trainer knows of a problem: batches, a loss in named terms, an evaluation, a few samples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headway.data.batching import Indices, Order

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
    """One part of a loss: a sum, how many things it was summed over, and its weight beside the others."""

    total: Tensor
    count: int
    weight: float = 1.0


class Task(Protocol):
    """A kind of problem. A new one is one new file beside this."""

    @property
    def order(self) -> Order:
        """Which sequences make which batch, epoch after epoch."""
        ...

    def batch(self, indices: Indices) -> Batch:
        """The training batch of these sequences."""
        ...

    def loss(self, model: nn.Module, batch: Batch, *, smoothing: float = 0.0) -> dict[str, Term]:
        """The loss of a batch, in named terms."""
        ...

    def validate(self, model: nn.Module, device: torch.device) -> float:
        """Nats per target over the whole validation split."""
        ...

    def samples(self, model: nn.Module, device: torch.device) -> list[str]:
        """A few lines that show what the model can do."""
        ...


def cross_entropy(logits: Tensor, targets: Tensor, smoothing: float = 0.0) -> Tensor:
    """The summed loss in nats, ignored targets left out; in float32 at least."""
    logits = logits.flatten(0, -2)
    exact = logits.to(torch.promote_types(logits.dtype, torch.float32))
    return F.cross_entropy(exact, targets.flatten(), ignore_index=IGNORED, reduction="sum", label_smoothing=smoothing)
