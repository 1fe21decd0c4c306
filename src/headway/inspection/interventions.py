"""Several changes to one forward pass: parts ablated, and values patched in from another input."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from headway.errors import ConfigError
from headway.inspection.ablation import Instead, ablate
from headway.inspection.capture import capture
from headway.inspection.patching import patch
from headway.inspection.tap_names import taps


@dataclass(frozen=True, slots=True, kw_only=True)
class Ablated:
    """A part whose output is replaced: one head of an attention, or a whole attention, feedforward network or layer."""

    part: str  # "decoder.layers.1.cross"
    head: int | None = None
    instead: Instead = "zero"

    def __str__(self) -> str:
        return self.part if self.head is None else f"{self.part}, head {self.head + 1}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Interventions:
    """What is changed while a model runs."""

    ablated: Sequence[Ablated] = ()
    patched: Mapping[str, Tensor] = field(
        default_factory=dict
    )  # values (1, T', D) by tap, as `patched_values` has them

    def __bool__(self) -> bool:
        return bool(self.ablated or self.patched)

    @contextlib.contextmanager
    def applied(self, model: nn.Module) -> Iterator[None]:
        """While open, the model runs with these changes. Raises ConfigError for a part that it does not have."""
        with contextlib.ExitStack() as stack:
            for name, value in self.patched.items():
                stack.enter_context(patch(model, {name: _first_rows(value)}))
            for each in self.ablated:
                heads = None if each.head is None else {each.part: [each.head]}
                parts = [each.part] if each.head is None else []
                stack.enter_context(ablate(model, heads=heads, parts=parts, instead=each.instead))
            yield


@torch.no_grad()
def patched_values(model: nn.Module, parts: Sequence[str], run: Callable[[], object]) -> dict[str, Tensor]:
    """The outputs of attentions and feedforward networks while `run` runs the model on another input, by tap name.

    Raises ConfigError for a part without an output of its own.
    """
    known = {point.name for point in taps(model) if point.kind == "out"}
    names = [f"{part}.out" for part in parts]
    wrong = [part for part, name in zip(parts, names, strict=True) if name not in known]
    if wrong:
        raise ConfigError(f"{wrong[0]!r} cannot be patched: not an attention or feedforward network of this model")
    if not names:
        return {}
    with capture(model, what=names) as seen:
        run()
    return {name: seen.last[name].detach().clone() for name in names}


def _first_rows(other: Tensor) -> Callable[[Tensor], Tensor]:
    """Replaces as many positions as both inputs have; those that only this input has stay."""

    def changed(value: Tensor) -> Tensor:
        rows = min(value.shape[1], other.shape[1])
        return torch.cat((other[:, :rows].to(value).expand(len(value), -1, -1), value[:, rows:]), 1)

    return changed
