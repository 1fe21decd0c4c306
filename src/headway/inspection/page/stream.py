"""The residual stream as the page shows it: what came in, and what each block left, for every token."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from headway.inspection.page.heads import Reads
from headway.inspection.page.recording import Recording, Stream
from headway.inspection.page.tensors import Tensors

PARTS = {"attn": "attention", "cross": "cross-attention", "mlp": "network"}


def stack_entries(recording: Recording, tensors: Tensors, reads: Mapping[str, Reads]) -> list[dict[str, Any]]:
    """Every stack that ran: its input in steps, and by block what was added and what was left."""
    return [
        {"name": path, "label": reads[path].label, "sequence": reads[path].sequence, **_entry(stream, tensors)}
        for path, stream in recording.streams.items()
        if path in reads and stream.entered is not None
    ]


def _entry(stream: Stream, tensors: Tensors) -> dict[str, Any]:
    positions = stream.module.input_positions
    shared = stream.module.attention_positions
    kind = type(positions.position if positions else shared.position if shared else None).__name__
    steps: list[tuple[str, Tensor | None]] = [("embedding", stream.embedded)]
    if stream.placed is not None and stream.embedded is not None:
        steps += [("position", stream.placed - stream.embedded), ("together", stream.placed)]
    if stream.module.input_norm is not None:
        steps.append(("normalised", stream.entered))
    return {
        "position": None if kind == "NoneType" else kind,
        "inside": shared is not None,
        "input": [{"label": label, "tensor": tensors.levels(value)} for label, value in steps if value is not None],
        "layers": [
            {
                "left": tensors.levels(left),
                "added": {PARTS[name]: tensors.full(value.float().norm(dim=-1)) for name, value in parts.items()},
            }
            for left, parts in zip(stream.left, stream.parts, strict=True)
        ],
        "out": None if stream.out is None or not stream.module.output_norm else tensors.levels(stream.out),
    }
