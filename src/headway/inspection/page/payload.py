"""A payload put together: one forward pass is recorded, and what it did becomes the tables and tensors of the page."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from torch import Tensor, nn

from headway.inspection.page.attention import Reads, attention_entries, numbers_in
from headway.inspection.page.head_ablation import ablation_entry
from headway.inspection.page.logit_lens import lens_entry
from headway.inspection.page.neighbours import Table, Words, near_entry
from headway.inspection.page.outputs import Output, output_entry
from headway.inspection.page.record import Recording, recorded
from headway.inspection.page.residual_stream import stack_entries
from headway.inspection.page.tensors import Precision, Tensors

__all__ = ["Output", "Subject", "assembled"]

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

    def saying(self, text: str) -> Subject:
        """The same with what the run made of its input."""
        return replace(self, said=text)


def assembled(
    model: nn.Module,
    forward: Callable[[], Tensor],
    subject: Subject,
    *,
    reads: Mapping[str, Reads],
    sequences: Mapping[str, Any],
    output: Output | None,
    tables: Mapping[str, Table | Words] | None = None,
    more: Callable[[Tensors, Recording], dict[str, Any]] | None = None,
) -> dict[str, Any]:
    """The payload of one forward pass, which gives logits (T, V)."""
    with recorded(model) as recording:
        logits = forward()
    tensors = Tensors(_precision(recording))
    attentions = attention_entries(recording, tensors, reads)
    payload: dict[str, Any] = {
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
        "attentions": attentions,
        "left_out": len(recording.looks) - len(attentions),
        "stacks": stack_entries(recording, tensors, reads),
        "near": near_entry(tables or {}),
        "output": None,
        "lens": None,
        "ablation": None,
    }
    if output is not None:
        payload["output"] = output_entry(logits, output, tensors)
        payload["lens"] = lens_entry(recording, output.name, tensors)
        payload["ablation"] = ablation_entry(model, forward, attentions, logits, output, tensors)
    if more is not None:
        payload |= more(tensors, recording)
    return {**payload, "tensors": tensors.kept}


def _precision(recording: Recording) -> Precision:
    numbers = sum(numbers_in(look) for looks in recording.looks.values() for look in looks)
    return "float32" if numbers <= EXACT else "int16"
