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
    """A part whose output is replaced: a head of an attention, or a whole attention, network, layer or embedding."""

    part: str  # "decoder.layers.1.cross"
    head: int | None = None
    instead: Instead = "zero"
    place: int | None = None  # the position at which it is replaced; None: at all

    def __str__(self) -> str:
        whole = self.part if self.head is None else f"{self.part}, head {self.head + 1}"
        return whole if self.place is None else f"{whole}, at position {self.place + 1}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Interventions:
    """What is changed while a model runs."""

    ablated: Sequence[Ablated] = ()
    patched: Mapping[str, Tensor] = field(
        default_factory=dict
    )  # values (1, T', D), of heads (1, H, T', E), by tap, as `patched_values` has them
    patched_heads: Sequence[int] | None = None  # of the patched attentions; None: their whole output

    def __bool__(self) -> bool:
        return bool(self.ablated or self.patched)

    @property
    def of_one_pass(self) -> bool:
        """Whether they belong to places of one pass, so that a model cannot decode with them, token by token."""
        return bool(self.patched) or any(
            each.place is not None and not each.part.startswith("encoder.") for each in self.ablated
        )

    @contextlib.contextmanager
    def applied(self, model: nn.Module) -> Iterator[None]:
        """While open, the model runs with these changes. Raises ConfigError for a part that it does not have."""
        with contextlib.ExitStack() as stack:
            for name, value in self.patched.items():
                heads_only = None if self.patched_heads is None else list(self.patched_heads)
                stack.enter_context(patch(model, {name: _first_rows(value)}, heads=heads_only))
            for each in self.ablated:
                heads = None if each.head is None else {each.part: [each.head]}
                parts = [each.part] if each.head is None else []
                rows = None if each.place is None else [each.place]
                stack.enter_context(ablate(model, heads=heads, parts=parts, instead=each.instead, rows=rows))
            yield


@torch.no_grad()
def patched_values(
    model: nn.Module, parts: Sequence[str], run: Callable[[], object], *, of_heads: bool = False
) -> dict[str, Tensor]:
    """The outputs of attentions and feedforward networks while `run` runs the model on another input, by tap name.

    With `of_heads` those of the heads of attentions. Raises ConfigError for a part without an output of its own.
    """
    kind = "heads" if of_heads else "out"
    known = {point.name for point in taps(model) if point.kind == kind}
    names = [f"{part}.{kind}" for part in parts]
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
        rows = min(value.shape[-2], other.shape[-2])
        kept = other[..., :rows, :].to(value)
        return torch.cat((kept.expand(len(value), *kept.shape[1:]), value[..., rows:, :]), -2)

    return changed
