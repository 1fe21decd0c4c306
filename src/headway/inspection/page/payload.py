"""The payload of a page: one forward pass is recorded and becomes the tables and tensors of the page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from headway.decoding.non_finite import expect_finite
from headway.inspection.page.attention import attention_entries, attention_sizes, element_count
from headway.inspection.page.beside import beside_entry, explained_beside
from headway.inspection.page.head_ablation import ablation_entry, left_out, within_limit
from headway.inspection.page.html import document, json_block
from headway.inspection.page.image import picture_entry
from headway.inspection.page.kept_looks import Look, time_lapse_entry
from headway.inspection.page.logit_lens import lens_entry
from headway.inspection.page.model_map import map_entry
from headway.inspection.page.neighbours import neighbour_entry
from headway.inspection.page.outputs import output_entry
from headway.inspection.page.record import ForwardRecord, record_forward
from headway.inspection.page.residual_stream import stack_entries
from headway.inspection.page.search import trace_entry
from headway.inspection.page.start import most_needed, start_entry
from headway.inspection.page.tensors import PageTensors, Precision
from headway.inspection.rollout import rollout
from headway.tasks.base import Pipeline
from headway.tasks.explanation import Explanation

VERSION = 4
FILE_BYTES = 15_000_000  # the largest file
STREAMS = 0.3  # of the room beside all other parts, at most, for the vectors of the stream
EXACT = 1_200_000  # numbers in queries, keys and values up to which a page keeps all 32 bits: 5 MB


@dataclass(frozen=True, slots=True, kw_only=True)
class PageOptions:
    """What a page shows first, and what may take long."""

    open: str | None = None  # QUERY:KEY, two tokens: the page opens at the head that attends most from one to the other
    ablate: bool = False  # switch off every head, even if that takes long
    quick: bool = False  # ablate no head, however little it takes: the live page asks for it when it is wanted
    models: int = 1  # that share the page, and its size


DEFAULT = PageOptions()
ChangeEntry = Callable[[PageTensors], dict[str, Any]]
QUICK = "The heads of this input have not been ablated one by one yet."


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFacts:
    """What the page says about the run."""

    folder: str
    task: str = ""
    data: str = ""
    steps: tuple[int, ...] = ()
    score: str = ""


def page(
    pipeline: Pipeline,
    given: str,
    options: PageOptions = DEFAULT,
    score: str = "",
    *,
    beside: Pipeline | None = None,
    looks: Sequence[Look] = (),
) -> str:
    """One HTML file about what a run does with an input, `beside` a second model and `looks` over training if given.

    Raises ConfigError for a run that has no page.
    """
    explanation = pipeline.explain(given)
    if beside is not None:
        options = replace(options, models=2)
    found = payload(pipeline.model, explanation, run_facts(pipeline, score), options, looks=looks)
    if beside is not None:
        found["other"] = other_entry(pipeline, beside, explanation, options)
    return document(found)


def other_entry(
    pipeline: Pipeline,
    other: Pipeline,
    explanation: Explanation,
    options: PageOptions = DEFAULT,
    written: Sequence[int] | None = None,
) -> dict[str, Any]:
    """What a page shows of a second model that reads the same tokens. Raises ConfigError for a run without a page."""
    second = explained_beside(pipeline, other, explanation.given, explanation, written)
    quick = replace(options, quick=True, ablate=False, open=None)
    return beside_entry(payload(other.model, second, run_facts(other), quick))


def run_facts(pipeline: Pipeline, score: str = "") -> RunFacts:
    """What a page says about the run of a pipeline."""
    data = Path(pipeline.parts.data.spec)
    return RunFacts(
        folder=str(pipeline.folder),
        task=pipeline.task.title,
        data=data.name if data.is_absolute() else pipeline.parts.data.spec,
        steps=pipeline.parts.steps,
        score=score,
    )


@torch.no_grad()
def payload(
    model: nn.Module,
    explanation: Explanation,
    run: RunFacts,
    options: PageOptions = DEFAULT,
    change: ChangeEntry | None = None,
    looks: Sequence[Look] = (),
) -> dict[str, Any]:
    """The page's data: one recorded forward pass of `explanation`. Raises DataError for `open` without such tokens.

    `change` gives what an intervention changed, for a page of a model that runs with one; `looks` were kept while the
    model trained.
    """
    with record_forward(model) as recording:
        logits = explanation.forward()
    expect_finite(logits, "position")
    tensors = PageTensors(_precision(recording))
    output = explanation.output
    found = _facts(model, explanation, run, logits) | _outputs(recording, explanation, logits, tensors)
    found |= {"map": map_entry(model), "change": None if change is None else change(tensors)}
    if (lapse := time_lapse_entry(looks, tensors)) is not None:
        found["time_lapse"] = lapse
    room = FILE_BYTES // options.models - len(document({"title": ""}).encode()) - len(json_block(found)) - tensors.size
    if options.ablate or (not options.quick and within_limit(model, _heads(recording), len(logits))):
        room -= _heads(recording) * (12 * len(logits) + 40)  # a float32 and an id for each place, and the head's name
    sizes = attention_sizes(recording, tensors)
    streams = max(0, min(round(STREAMS * room), room - sizes[-1])) if sizes else room
    before = tensors.size
    found["stacks"] = stack_entries(recording, tensors, explanation.reads, streams)
    attentions = attention_entries(recording, tensors, explanation.reads, room - (tensors.size - before))
    reason = "" if options.ablate and output is not None else left_out(model, attentions, output)
    if options.quick and output is not None:
        reason = QUICK
    ablation = None
    if output is not None and not reason:
        ablation = ablation_entry(model, explanation.forward, attentions, logits, output, tensors)
    return {
        **found,
        "precision": tensors.precision,
        "attentions": attentions,
        "left_out": len(recording.attention) - len(attentions),
        "ablation": ablation,
        "ablation_left_out": reason,
        "start": start_entry(recording, attentions, explanation.sequences, options.open)
        or most_needed(ablation, attentions, explanation.sequences, output),
        "checks": tensors.checks,
        "tensors": tensors.entries,
    }


def _facts(model: nn.Module, explanation: Explanation, run: RunFacts, logits: Tensor) -> dict[str, Any]:
    given = explanation.given
    said = explanation.said if isinstance(explanation.said, str) else explanation.said(logits)
    return {
        "headway": VERSION,
        "kind": explanation.kind,
        "title": f"{given} → {said}" if said else given,
        "run": run.folder,
        "task": run.task,
        "data": run.data,
        "score": run.score,
        "model": getattr(model, "title", "") or type(model).__name__,
        "parameters": sum(p.numel() for p in model.parameters()),
        "steps": list(run.steps),
        "given": given,
        "said": said,
        "sequences": dict(explanation.sequences),
        "near": neighbour_entry(explanation.tables),
    }


def _outputs(
    recording: ForwardRecord, explanation: Explanation, logits: Tensor, tensors: PageTensors
) -> dict[str, Any]:
    """What comes out, the logit lens, the picture and the search, as far as there are any."""
    output, found = explanation.output, dict[str, Any](output=None, lens=None)
    if output is not None:
        found["output"] = output_entry(logits, output, tensors)
        found["lens"] = lens_entry(recording, output.name, tensors)
    if explanation.image is not None:
        found["image"] = picture_entry(explanation.image, recording.model, tensors)
        if explanation.image.rollout:
            weights = [looks[0].weights() for looks in recording.attention.values()]
            found["rollout"] = tensors.full(rollout(weights)[0])
    if explanation.trace is not None:
        name = explanation.trace.pieces.__getitem__ if output is None else output.name
        found["trace"] = trace_entry(explanation.trace, name, tensors)
    return found


def _heads(recording: ForwardRecord) -> int:
    return sum(looks[0].q.shape[1] for looks in recording.attention.values())


def _precision(recording: ForwardRecord) -> Precision:
    elements = sum(element_count(look) for looks in recording.attention.values() for look in looks)
    return "float32" if elements <= EXACT else "int16"
