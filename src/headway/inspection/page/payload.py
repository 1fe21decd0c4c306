"""The payload of a page: one forward pass is recorded and becomes the tables and tensors of the page."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from headway.decoding.non_finite import expect_finite
from headway.inspection.page.attention import attention_entries, element_count
from headway.inspection.page.head_ablation import ablation_entry
from headway.inspection.page.html import document
from headway.inspection.page.image import picture_entry
from headway.inspection.page.logit_lens import lens_entry
from headway.inspection.page.neighbours import neighbour_entry
from headway.inspection.page.outputs import output_entry
from headway.inspection.page.record import ForwardRecord, record_forward
from headway.inspection.page.residual_stream import stack_entries
from headway.inspection.page.search import trace_entry
from headway.inspection.page.tensors import PageTensors, Precision
from headway.inspection.rollout import rollout
from headway.tasks.base import Pipeline
from headway.tasks.explanation import Explanation

VERSION = 1
EXACT = 1_200_000  # numbers in queries, keys and values up to which a page keeps all 32 bits: 5 MB


def page(pipeline: Pipeline, given: str) -> str:
    """One HTML file about what a run does with an input. Raises ConfigError for a run that has no page."""
    explanation = pipeline.explain(given)
    return document(payload(pipeline.model, explanation, str(pipeline.folder), pipeline.parts.steps))


@torch.no_grad()
def payload(model: nn.Module, explanation: Explanation, run: str, steps: tuple[int, ...] = ()) -> dict[str, Any]:
    """The page's data: one recorded forward pass of `explanation`."""
    with record_forward(model) as recording:
        logits = explanation.forward()
    expect_finite(logits, "position")
    tensors = PageTensors(_precision(recording))
    attentions = attention_entries(recording, tensors, explanation.reads)
    given, output = explanation.given, explanation.output
    said = explanation.said if isinstance(explanation.said, str) else explanation.said(logits)
    found: dict[str, Any] = {
        "headway": VERSION,
        "kind": explanation.kind,
        "title": f"{given} → {said}" if said else given,
        "run": run,
        "model": type(model).__name__,
        "parameters": sum(p.numel() for p in model.parameters()),
        "steps": list(steps),
        "given": given,
        "said": said,
        "precision": tensors.precision,
        "sequences": dict(explanation.sequences),
        "attentions": attentions,
        "left_out": len(recording.attention) - len(attentions),
        "stacks": stack_entries(recording, tensors, explanation.reads),
        "near": neighbour_entry(explanation.tables),
        "output": None,
        "lens": None,
        "ablation": None,
    }
    if output is not None:
        found["output"] = output_entry(logits, output, tensors)
        found["lens"] = lens_entry(recording, output.name, tensors)
        found["ablation"] = ablation_entry(model, explanation.forward, attentions, logits, output, tensors)
    if explanation.image is not None:
        found["image"] = picture_entry(explanation.image, model, tensors)
        if explanation.image.rollout:
            weights = [looks[0].weights() for looks in recording.attention.values()]
            found["rollout"] = tensors.full(rollout(weights)[0])
    if explanation.trace is not None:
        found["trace"] = trace_entry(explanation.trace, tensors)
    return {**found, "tensors": tensors.entries}


def _precision(recording: ForwardRecord) -> Precision:
    elements = sum(element_count(look) for looks in recording.attention.values() for look in looks)
    return "float32" if elements <= EXACT else "int16"
