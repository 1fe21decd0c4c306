"""The page's map of the model: every part that can be chosen, and whether it can be ablated."""

from __future__ import annotations

from typing import Any

from torch import nn

from headway.inspection.tap_names import taps


def map_entry(model: nn.Module) -> list[dict[str, Any]]:
    """Stacks from input to output: the tap of what they read, and their layers, each with its parts as they run.

    A block that all layers share is one layer.
    """
    points = taps(model)
    outs = {point.name for point in points if point.kind == "out"}
    stacks: dict[str, dict[int | None, list[dict[str, Any]]]] = {}
    for point in points:
        part = point.name.rsplit(".", 1)[0]
        kind = point.attention if point.kind == "heads" else None
        if kind is None and not (point.kind == "out" and part.endswith(".feedforward")):
            continue
        entry = {
            "name": part,
            "kind": kind or "feedforward",
            "heads": point.heads or 0,
            "ablatable": f"{part}.out" in outs,
        }
        layers = stacks.setdefault(point.stack, {})
        parts = layers.setdefault(point.layer, [])
        if all(known["name"] != part for known in parts):
            parts.append(entry)
    return [
        {
            "name": stack,
            "embedding": next((p.name for p in points if p.kind == "embedding" and p.stack == stack), None),
            "layers": [{"layer": layer, "parts": parts} for layer, parts in layers.items()],
        }
        for stack, layers in stacks.items()
    ]
