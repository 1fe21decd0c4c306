"""The page's residual stream: the input, and the stream after each block, for every token."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from headway.inspection.page.record import ForwardRecord
from headway.inspection.page.tensors import PageTensors, indices_that_fit
from headway.tasks.explanation import StackDescription

MAX_BYTES = 2_000_000  # of one stack's stream, and of its input
PARTS = {"self.out": "attention", "cross.out": "cross-attention", "feedforward.out": "network"}


def stack_entries(
    recording: ForwardRecord, tensors: PageTensors, reads: Mapping[str, StackDescription]
) -> list[dict[str, Any]]:
    """Every stack that ran: its input in steps, and for each block what was added and the stream after it."""
    return [
        {
            "name": stack,
            "label": described.label,
            "sequence": described.sequence,
            **_entry(recording, stack, described, tensors),
        }
        for stack, described in reads.items()
        if recording.value(_name(stack, "layers.0.residual")) is not None
    ] + [
        {
            "name": stack,
            "label": described.label,
            "sequence": described.sequence,
            **_recurrent(recording, stack, tensors),
        }
        for stack, described in reads.items()
        if recording.value(_name(stack, "layers.0.states")) is not None
    ]


def _name(stack: str, rest: str) -> str:
    return f"{stack}.{rest}" if stack else rest


def _entry(recording: ForwardRecord, stack: str, described: StackDescription, tensors: PageTensors) -> dict[str, Any]:
    holder: Any = recording.holder(stack)
    left = _layers(recording, stack, "residual")
    hidden = recording.value(_name(stack, "hidden"))
    kept = indices_that_fit([value.numel() for value in left], MAX_BYTES)
    given = _input(recording, stack, described)
    given = [given[n] for n in indices_that_fit([value.numel() for _, value in given], MAX_BYTES)]
    depth = {kind: recording.value(_name(stack, kind)) for kind in ("steps", "cost")}
    return {
        "positions": _positions(holder, described),
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


def _positions(holder: Any, described: StackDescription) -> str:
    """How positions enter a stack, in a sentence."""
    joined, shared = getattr(holder, "input_positions", None), getattr(holder, "attention_positions", None)
    if described.positions is not None:
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


def _recurrent(recording: ForwardRecord, stack: str, tensors: PageTensors) -> dict[str, Any]:
    """A recurrent stack: its input, and the states of each layer."""
    embedded = recording.value(_name(stack, "embedding"))
    given = [] if embedded is None else [{"label": "embedding", "tensor": tensors.levels(embedded)}]
    layers = [{"left": tensors.levels(states), "added": {}} for states in _layers(recording, stack, "states")]
    order = "Positions are the order in which tokens are read."
    return {"positions": order, "depth": None, "input": given, "layers": layers, "out": None}


def _layers(recording: ForwardRecord, stack: str, kind: str) -> list[Tensor]:
    """(T, D) of each layer."""
    found: list[Tensor] = []
    while (value := recording.value(_name(stack, f"layers.{len(found)}.{kind}"))) is not None:
        found.append(value)
    return found


def _input(recording: ForwardRecord, stack: str, described: StackDescription) -> list[tuple[str, Tensor]]:
    embedded, entered = (recording.value(_name(stack, rest)) for rest in ("embedding", "layers.0.input"))
    assert embedded is not None
    assert entered is not None
    steps, last = [("embedding", embedded)], embedded
    if described.positions is not None:
        steps = [("patches", embedded - described.positions), ("position", described.positions), ("together", embedded)]
    if stack in recording.with_positions:
        last = recording.with_positions[stack]
        steps += [("position", last - embedded), ("together", last)]
    if entered.shape != last.shape or not entered.equal(last):
        steps.append(("what the first block reads", entered))
    return steps


def _added(recording: ForwardRecord, stack: str, layer: int, tensors: PageTensors) -> dict[str, str]:
    """(T,) the norm of each part's contribution to the stream, by the part's name."""
    found = {part: recording.value(_name(stack, f"layers.{layer}.{part}")) for part in PARTS}
    return {PARTS[part]: tensors.full(value.float().norm(dim=-1)) for part, value in found.items() if value is not None}
