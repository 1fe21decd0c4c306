"""The payload of a page: one forward pass is recorded and becomes the tables and tensors of the page."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from torch import Tensor, nn

from headway.inspection.page.attention import StackDescription, attention_entries, element_count
from headway.inspection.page.head_ablation import ablation_entry
from headway.inspection.page.logit_lens import lens_entry
from headway.inspection.page.neighbours import EmbeddingTable, EncodedWords, neighbour_entry
from headway.inspection.page.outputs import Output, output_entry
from headway.inspection.page.record import ForwardRecord, record_forward
from headway.inspection.page.residual_stream import stack_entries
from headway.inspection.page.tensors import PageTensors, Precision

__all__ = ["Output", "PageSubject", "build_payload"]

VERSION = 1
EXACT = 1_200_000  # elements of queries, keys and values up to which a page keeps float32: 5 MB
Kind = Literal["language", "translation", "masked", "image", "caption"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PageSubject:
    """What the page is about: the run, its input as given, and its output as text."""

    kind: Kind
    run: str
    given: str
    said: str = ""
    steps: tuple[int, ...] = ()

    def with_output(self, text: str) -> PageSubject:
        """The same with the run's output."""
        return replace(self, said=text)


def build_payload(
    model: nn.Module,
    forward: Callable[[], Tensor],
    subject: PageSubject,
    *,
    reads: Mapping[str, StackDescription],
    sequences: Mapping[str, Any],
    output: Output | None,
    tables: Mapping[str, EmbeddingTable | EncodedWords] | None = None,
    more: Callable[[PageTensors, ForwardRecord], dict[str, Any]] | None = None,
) -> dict[str, Any]:
    """The payload of one forward pass, which returns logits (T, V)."""
    with record_forward(model) as recording:
        logits = forward()
    tensors = PageTensors(_precision(recording))
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
        "left_out": len(recording.attention) - len(attentions),
        "stacks": stack_entries(recording, tensors, reads),
        "near": neighbour_entry(tables or {}),
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
    return {**payload, "tensors": tensors.entries}


def _precision(recording: ForwardRecord) -> Precision:
    elements = sum(element_count(look) for looks in recording.attention.values() for look in looks)
    return "float32" if elements <= EXACT else "int16"
