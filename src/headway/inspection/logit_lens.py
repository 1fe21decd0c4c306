"""The logit lens: the residual stream after each layer, decoded by the output layer (nostalgebraist 2020)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from headway.errors import ConfigError
from headway.inspection.tap_names import TapPoint, taps


@torch.no_grad()
def logit_lens(model: nn.Module, seen: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Logits (B, t, V) by layer, of captured residuals (what="residual"), by the model's final norm and output layer.

    The last layer's are the model's logits. An image classifier's head reads one vector: (B, V).
    """
    read = getattr(model, "read", None)
    stacks = [tap for tap in taps(model) if tap.kind == "hidden" and tap.stack != "encoder"]
    if read is None or not stacks:
        raise ConfigError(f"the logit lens needs blocks and an output layer; {type(model).__name__} lacks them")
    norm: Any = getattr(model.get_submodule(stacks[0].module), "output_norm", None)
    residuals = _residuals(model, seen, stacks[0])
    if not residuals:
        raise ConfigError("no residual was captured; use capture(model, what='residual')")
    return {name: read(value if norm is None else norm(value, None)) for name, value in residuals.items()}


def _residuals(model: nn.Module, seen: Mapping[str, Tensor], stack: TapPoint) -> dict[str, Tensor]:
    """The residuals of this stack, in the order of its layers; a shared block has one for each use."""
    every = [tap for tap in taps(model) if tap.kind == "residual" and tap.stack == stack.stack]
    names = [tap.name for tap in every if not tap.shared]
    for tap in every:
        if tap.shared:
            used = range(len(seen))
            names += [tap.at(n).name for n in used]
    return {name: seen[name] for name in names if name in seen}
