"""The page's residual stream: the input, and the stream after each block, for every token."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

from headway.inspection.page.block_steps import block_steps
from headway.inspection.page.record import ForwardRecord
from headway.inspection.page.tensors import PageTensors, indices_that_fit
from headway.tasks.explanation import StackDescription

PARTS = {"self.out": "attention", "cross.out": "cross-attention", "feedforward.out": "network"}


def stack_entries(
    recording: ForwardRecord, tensors: PageTensors, reads: Mapping[str, StackDescription], room: int
) -> list[dict[str, Any]]:
    """Every stack that ran: its input in steps, and for each block what was added and the stream after it.

    `room` is how many characters of the file their vectors may take; what does not fit is left out, evenly.
    """
    share = room // max(1, 2 * len(reads))  # of one stack's stream, and of its input
    return [
        {
            "name": stack,
            "label": described.label,
            "sequence": described.sequence,
            **_entry(recording, stack, described, tensors, share),
        }
        for stack, described in reads.items()
        if recording.value(_name(stack, "layers.0.residual")) is not None
    ] + [
        {
            "name": stack,
            "label": described.label,
            "sequence": described.sequence,
            **_recurrent(recording, stack, tensors, share),
        }
        for stack, described in reads.items()
        if recording.value(_name(stack, "layers.0.states")) is not None
    ]


def _name(stack: str, rest: str) -> str:
    return f"{stack}.{rest}" if stack else rest


def _fitting(values: Sequence[Tensor], tensors: PageTensors, room: int) -> list[int]:
    """Indices of the vectors (T, D) that fit into so many characters."""
    return indices_that_fit([tensors.displayed_size(*value.shape) for value in values], room)


def _entry(
    recording: ForwardRecord, stack: str, described: StackDescription, tensors: PageTensors, room: int
) -> dict[str, Any]:
    holder: Any = recording.holder(stack)
    left = _layers(recording, stack, "residual")
    hidden = recording.value(_name(stack, "hidden"))
    given = _input(recording, stack, described)
    given = [given[n] for n in _fitting([value for _, value in given], tensors, room)]
    final = [hidden] if hidden is not None and getattr(holder, "output_norm", None) else []
    kept = _fitting([*left, *final], tensors, room)
    depth = {kind: recording.value(_name(stack, kind)) for kind in ("steps", "cost")}
    return {
        "positions": _positions(holder, described),
        "depth": {kind: tensors.full(value) for kind, value in depth.items() if value is not None} or None,
        "input": [{"label": label, "tensor": tensors.displayed(value)} for label, value in given],
        "layers": [
            {
                "left": tensors.displayed(value) if n in kept else None,
                "added": _added(recording, stack, n, tensors),
                "steps": block_steps(recording, _name(stack, f"layers.{n}"), tensors, room // (2 * len(left))),
            }
            for n, value in enumerate(left)
        ],
        "out": tensors.displayed(final[0]) if final and len(left) in kept else None,
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


def _recurrent(recording: ForwardRecord, stack: str, tensors: PageTensors, room: int) -> dict[str, Any]:
    """A recurrent stack: its input, and the states of each layer."""
    embedded = recording.value(_name(stack, "embedding"))
    given = []
    if embedded is not None and _fitting([embedded], tensors, room):
        given = [{"label": "embedding", "tensor": tensors.displayed(embedded)}]
    states = _layers(recording, stack, "states")
    kept = _fitting(states, tensors, room)
    layers: list[dict[str, Any]] = [
        {"left": tensors.displayed(each) if n in kept else None, "added": {}} for n, each in enumerate(states)
    ]
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
        steps += [("position", recording.position_codes.get(stack, last - embedded)), ("together", last)]
    if entered.shape != last.shape or not entered.equal(last):
        steps.append(("what the first block reads", entered))
    return steps


def _added(recording: ForwardRecord, stack: str, layer: int, tensors: PageTensors) -> dict[str, str]:
    """(T,) the norm of each part's contribution to the stream, by the part's name."""
    found = {part: recording.value(_name(stack, f"layers.{layer}.{part}")) for part in PARTS}
    return {PARTS[part]: tensors.full(value.float().norm(dim=-1)) for part, value in found.items() if value is not None}
