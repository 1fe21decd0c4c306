"""Ablation: replace the output of heads, attentions, feedforward networks or layers by zeros or their mean."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal

import torch
from torch import Tensor, nn

from headway.errors import ConfigError
from headway.inspection.patching import patch
from headway.inspection.tap_names import TapPoint, taps

Instead = Literal["zero", "mean"]


@contextlib.contextmanager
def ablate(
    model: nn.Module,
    *,
    heads: Mapping[str, Sequence[int]] | None = None,
    parts: Sequence[str] = (),
    instead: Instead = "zero",
    rows: Sequence[int] | None = None,
) -> Iterator[None]:
    """While open, ablate heads of an attention ({"layers.2.self": [0, 5]}) and whole parts.

    A part is an attention ("decoder.layers.2.cross"), a feedforward network ("layers.2.feedforward"), a layer
    ("layers.2"), of which only the residual stream is left, or the vectors that a stack reads ("encoder.embedding").
    `instead` is what replaces their output: zeros, or its mean over batch and positions. With `rows` only the output at
    these positions is replaced.
    """
    if instead not in ("zero", "mean"):
        raise ConfigError(f"instead={instead!r}, allowed: zero, mean")
    every = taps(model)
    change = _zero if instead == "zero" else _mean
    with contextlib.ExitStack() as stack:
        for site, numbers in (heads or {}).items():
            point = _attention(every, site)
            wrong = [n for n in numbers if not 0 <= n < (point.heads or 0)]
            if wrong:
                raise ConfigError(f"head {wrong[0]} of {site}: it has heads 0 to {(point.heads or 0) - 1}")
            stack.enter_context(patch(model, {f"{site}.heads": change}, heads=list(numbers), rows=rows))
        for part in parts:
            outs = [name for name in (_at(p, part) for p in every if p.kind == "out") if name.startswith(f"{part}.")]
            outs += [p.name for p in every if p.kind == "embedding" and p.name == part]
            if not outs:
                raise ConfigError(
                    f"unknown part {part!r}: not a layer, attention, feedforward or embedding of headway.taps(model)"
                )
            stack.enter_context(patch(model, dict.fromkeys(outs, change), rows=rows))
        yield


@torch.no_grad()
def head_effects(model: nn.Module, measure: Callable[[], float], *, instead: Instead = "zero") -> dict[str, Tensor]:
    """The change of `measure`, which runs the model, when each head is ablated: (H,) for each attention."""
    whole = measure()
    found: dict[str, Tensor] = {}
    every = taps(model)
    names = {point.name for point in every}
    for point in every:
        if point.kind != "heads" or point.heads is None or f"{point.site}.out" not in names:
            continue
        changes = []
        for head in range(point.heads):
            with ablate(model, heads={point.site: [head]}, instead=instead):
                changes.append(measure() - whole)
        found[point.site] = torch.tensor(changes)
    return found


def _zero(value: Tensor) -> Tensor:
    return torch.zeros_like(value)


def _mean(value: Tensor) -> Tensor:
    """The mean over batch and positions: (B, h, t, E) or (B, t, D)."""
    return value.mean((0, -2), keepdim=True).expand_as(value)


def _attention(every: list[TapPoint], site: str) -> TapPoint:
    for point in every:
        if point.kind == "heads" and _at(point, site) == f"{site}.heads":
            return point
    sites = ", ".join(p.site for p in every if p.kind == "heads")
    raise ConfigError(f"unknown attention {site!r}; this model has: {sites}")


def _at(point: TapPoint, part: str) -> str:
    """The name of a tap; of a shared block, at the layer that `part` names, if any."""
    number = re.search(r"layers\.(\d+)", part)
    return point.at(int(number[1])).name if point.shared and number else point.name
