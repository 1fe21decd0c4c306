"""A payload put together: one forward pass is recorded, and what it did becomes the tables and tensors of the page."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from torch import Tensor, nn

from headway.inspection.page.heads import Reads, attention_entries
from headway.inspection.page.outputs import output_entry
from headway.inspection.page.recording import Recording
from headway.inspection.page.stream import stack_entries
from headway.inspection.page.tensors import Precision, Tensors

VERSION = 1
EXACT = 1_200_000  # numbers in queries, keys and values up to which a page keeps all 32 bits: 5 MB
Kind = Literal["language", "translation", "masked", "image", "caption"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What is looked at: the run by its name, its input as it was given, and what it made of it."""

    kind: Kind
    run: str
    given: str
    said: str = ""
    steps: tuple[int, ...] = ()


def assembled(
    model: nn.Module,
    forward: Callable[[], Tensor],
    subject: Subject,
    *,
    reads: Mapping[str, Reads],
    sequences: Mapping[str, Any],
    output: Mapping[str, Any] | None,
    more: Callable[[Tensors, Recording], dict[str, Any]] | None = None,
) -> dict[str, Any]:
    """The payload of one forward pass, which gives logits (T, V)."""
    with Recording(model) as recording:
        logits = forward()
    tensors = Tensors(_precision(recording))
    payload = {
        "headway": VERSION,
        "kind": subject.kind,
        "title": f"{subject.given} → {subject.said}" if subject.said else subject.given,
        "run": subject.run,
        "model": type(model).__name__,
        "parameters": sum(p.numel() for p in model.parameters()),
        "steps": list(subject.steps),
        "given": subject.given,
        "said": subject.said,
        "precision": tensors.precision,
        "sequences": dict(sequences),
        "attentions": attention_entries(recording, tensors, reads),
        "stacks": stack_entries(recording, tensors, reads),
        "output": None if output is None else output_entry(logits, tensors, **output),
    }
    if more is not None:
        payload |= more(tensors, recording)
    return {**payload, "tensors": tensors.kept}


def _precision(recording: Recording) -> Precision:
    numbers = sum(
        heads.seen[part].numel() for heads in recording.attentions.values() for part in "qkv" if part in heads.seen
    )
    return "float32" if numbers <= EXACT else "float16"
