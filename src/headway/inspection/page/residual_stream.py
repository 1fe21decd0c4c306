"""The residual stream as the page shows it: what came in, and what each block left, for every token."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from headway.inspection.page.attention import Reads
from headway.inspection.page.record import Recording
from headway.inspection.page.tensors import Tensors, fitting

ROOM = 2_000_000  # bytes of one stack's stream, and of its input
PARTS = {"self.out": "attention", "cross.out": "cross-attention", "feedforward.out": "network"}


def stack_entries(recording: Recording, tensors: Tensors, reads: Mapping[str, Reads]) -> list[dict[str, Any]]:
    """Every stack of blocks that ran: its input in steps, and by block what was added and what was left."""
    return [
        {"name": stack, "label": told.label, "sequence": told.sequence, **_entry(recording, stack, told, tensors)}
        for stack, told in reads.items()
        if recording.value(_name(stack, "layers.0.residual")) is not None
    ] + [
        {"name": stack, "label": told.label, "sequence": told.sequence, **_recurrent(recording, stack, tensors)}
        for stack, told in reads.items()
        if recording.value(_name(stack, "layers.0.states")) is not None
    ]


def _name(stack: str, rest: str) -> str:
    return f"{stack}.{rest}" if stack else rest


def _entry(recording: Recording, stack: str, told: Reads, tensors: Tensors) -> dict[str, Any]:
    holder: Any = recording.holder(stack)
    left = _layers(recording, stack, "residual")
    hidden = recording.value(_name(stack, "hidden"))
    kept = fitting([value.numel() for value in left], ROOM)
    given = _input(recording, stack, told)
    given = [given[n] for n in fitting([value.numel() for _, value in given], ROOM)]
    depth = {kind: recording.value(_name(stack, kind)) for kind in ("steps", "cost")}
    return {
        "positions": _positions(holder, told),
        "depth": {kind: tensors.full(value) for kind, value in depth.items() if value is not None} or None,
        "input": [{"label": label, "tensor": tensors.levels(value)} for label, value in given],
        "layers": [
            {"left": tensors.levels(value) if n in kept else None, "added": _added(recording, stack, n, tensors)}
            for n, value in enumerate(left)
        ],
        "out": tensors.levels(hidden)
        if hidden is not None and getattr(holder, "output_norm", None) and len(kept) == len(left)
        else None,
    }


def _positions(holder: Any, told: Reads) -> str:
    """How the tokens of a stack learn where they stand, in a sentence."""
    joined, shared = getattr(holder, "input_positions", None), getattr(holder, "attention_positions", None)
    if told.positions is not None:
        return "Each patch's vector, the learned code of its position, and what the first block reads."
    if joined is not None:
        return (
            f"Its vector, the code of its position ({type(joined.position).__name__}), and what the first block reads."
        )
    if shared is not None:
        return f"Positions ({type(shared.position).__name__.removesuffix('Bias')}) come in later, inside attention."
    if hasattr(holder, "tap_steps"):
        return "Position and step are added anew before each step of the loop."
    return "This stack is told nothing of positions."


def _recurrent(recording: Recording, stack: str, tensors: Tensors) -> dict[str, Any]:
    """A recurrent stack: vectors in, and the states of each layer."""
    embedded = recording.value(_name(stack, "embedding"))
    given = [] if embedded is None else [{"label": "embedding", "tensor": tensors.levels(embedded)}]
    layers = [{"left": tensors.levels(states), "added": {}} for states in _layers(recording, stack, "states")]
    order = "Positions are the order in which tokens are read."
    return {"positions": order, "depth": None, "input": given, "layers": layers, "out": None}


def _layers(recording: Recording, stack: str, kind: str) -> list[Tensor]:
    """(T, D) of each layer."""
    found: list[Tensor] = []
    while (value := recording.value(_name(stack, f"layers.{len(found)}.{kind}"))) is not None:
        found.append(value)
    return found


def _input(recording: Recording, stack: str, told: Reads) -> list[tuple[str, Tensor]]:
    embedded, entered = (recording.value(_name(stack, rest)) for rest in ("embedding", "layers.0.input"))
    assert embedded is not None
    assert entered is not None
    steps, last = [("embedding", embedded)], embedded
    if told.positions is not None:
        steps = [("patches", embedded - told.positions), ("position", told.positions), ("together", embedded)]
    if stack in recording.placed:
        last = recording.placed[stack]
        steps += [("position", last - embedded), ("together", last)]
    if entered.shape != last.shape or not entered.equal(last):
        steps.append(("what the first block reads", entered))
    return steps


def _added(recording: Recording, stack: str, layer: int, tensors: Tensors) -> dict[str, str]:
    """(T,) the length of what each part of a block gave, by what it is called."""
    found = {part: recording.value(_name(stack, f"layers.{layer}.{part}")) for part in PARTS}
    return {PARTS[part]: tensors.full(value.float().norm(dim=-1)) for part, value in found.items() if value is not None}
