"""Small looks at one input, kept while a model trains: the weights of every head, so that a page can show them by step.

A look is a JSON object: step, validation loss, tokens by sequence, and for each attention its weights (H, T, S).
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from headway.checked_json import JsonFields
from headway.documents import read_json
from headway.errors import ConfigError, HeadwayError
from headway.inspection.page.attention import attention_rows
from headway.inspection.page.beside import explained_beside
from headway.inspection.page.record import record_forward
from headway.inspection.page.tensors import PageTensors, indices_that_fit
from headway.tasks.base import Pipeline
from headway.tasks.explanation import Explanation

LOOKS = "looks"  # the folder in the run's
TARGET = " ||| "  # between a source and its target, as fast_align and Moses write pairs
LARGEST = 100_000  # weights of one look: 530 kB of JSON
ROOM = 3_000_000  # bytes of a page that looks may take

Look = dict[str, Any]


def explained(pipeline: Pipeline, text: str) -> Explanation:
    """The forward pass of an input, or of SOURCE ||| TARGET with this target as what is written.

    Raises ConfigError for a target that the run does not write, and for a run without a page.
    """
    given, separator, target = text.partition(TARGET)
    if not separator:
        return pipeline.explain(text)
    writer = pipeline.token_writer(given)
    if writer is None or writer.source is None:
        raise ConfigError(f"{text!r} has a target behind |||, but this run reads no source: leave |||… out")
    ids = writer.tokenizer.encode(target)
    return writer.explain([*ids, *sorted(writer.stops)[:1]])


@torch.no_grad()
def take_look(model: nn.Module, explanation: Explanation, step: int, loss: float | None = None) -> Look:
    """What is kept of a forward pass. Raises ConfigError for an input of too many tokens."""
    with record_forward(model) as recording:
        logits = explanation.forward()
    attentions, count = [], 0
    for site, looks in recording.attention.items():
        queries = sum(look.q.shape[2] for look in looks)
        point, described = recording.points[site], explanation.reads[recording.points[site].stack]
        crossing = point.attention == "cross"
        weights = attention_rows(looks, list(range(queries)), "weights")
        count += weights.numel()
        attentions.append(
            {
                "name": site,
                "unit": "step" if recording.taps[site] != site else "layer",
                "label": described.label,
                "layer": point.layer,
                "kind": point.attention,
                "queries": described.sequence,
                "keys": (described.memory or described.sequence) if crossing else described.sequence,
                "shape": list(weights.shape),
                "weights": _packed(weights),
            }
        )
    if count > LARGEST:
        raise ConfigError(
            f"{explanation.given!r} has {count:,} attention weights, allowed: {LARGEST:,}; take a shorter one"
        )
    return {
        "step": step,
        "loss": loss,
        "given": explanation.given,
        "sequences": {name: list(part["tokens"]) for name, part in explanation.sequences.items()},
        "attentions": attentions,
        "log_probabilities": _came(logits, explanation),
        "came": _tokens(explanation),
    }


def _came(logits: Tensor, explanation: Explanation) -> list[float | None] | None:
    """The log-probability of what came at each place."""
    if explanation.output is None:
        return None
    shares = logits.float().log_softmax(-1)
    pairs = enumerate(explanation.output.targets)
    return [None if target is None else round(float(shares[place, target]), 6) for place, target in pairs]


def _tokens(explanation: Explanation) -> list[str | None] | None:
    """What came at each place, as it is spelt."""
    output = explanation.output
    if output is None:
        return None
    return [None if target is None else output.name(target) for target in output.targets]


def _packed(tensor: Tensor) -> str:
    return base64.b64encode(tensor.detach().to("cpu", torch.float32).numpy().astype("<f4").tobytes()).decode()


def _unpacked(look: dict[str, Any]) -> Tensor:
    data = np.frombuffer(base64.b64decode(look["weights"], validate=True), "<f4")
    return torch.from_numpy(data.reshape(look["shape"]).copy())


def look_path(run: Path, step: int) -> Path:
    """The file of a step's look."""
    return run / LOOKS / f"step-{step:08d}.json"


def look_text(look: Look) -> str:
    """A look as the text of its file."""
    return json.dumps(look, allow_nan=False) + "\n"


def kept_looks(run: Path) -> list[Look]:
    """The looks of a run by step; of files that are damaged or of another input than the last, none."""
    found = []
    for path in sorted((run / LOOKS).glob("step-*.json")):
        try:
            found.append(_sound(read_json(path), path))
        except (HeadwayError, TypeError):
            continue
    return [look for look in found if look["given"] == found[-1]["given"]]


def looks_of(run: Path, given: str) -> list[Look]:
    """The looks that a run has of this input."""
    return [look for look in kept_looks(run) if look["given"] == given]


def looks_over(pipelines: Sequence[Pipeline], given: str) -> list[Look]:
    """Looks of an input by several checkpoints of a run, all of them at what the last one writes."""
    last = pipelines[-1].explain(given)
    looks = []
    for each in pipelines:
        explanation = explained_beside(pipelines[-1], each, given, last)
        looks.append(take_look(each.model, explanation, each.parts.steps[-1]))
    return looks


def _sound(values: Any, path: Path) -> Look:
    """A look as `take_look` makes it, every part checked. Raises DataError."""
    fields = JsonFields(values, where=str(path))
    sequences = fields.value("sequences")
    tokens = JsonFields(sequences, where=f"{path}: sequences")
    shares, came = fields.value("log_probabilities", None), fields.value("came", None)
    return {
        "step": fields.integer("step"),
        "loss": fields.number("loss") if fields.present("loss") else None,
        "given": fields.text("given"),
        "sequences": {str(name): list(tokens.texts(str(name))) for name in sequences},
        "attentions": [_sound_attention(each, path) for each in fields.value("attentions")],
        "came": None if came is None else [each if isinstance(each, str) else None for each in came],
        "log_probabilities": None if shares is None else [each if isinstance(each, float) else None for each in shares],
    }


def _sound_attention(values: Any, path: Path) -> dict[str, Any]:
    fields = JsonFields(values, where=str(path))
    shape = fields.integers("shape", count=3)
    fields.arrays("weights", "<f4", [int(np.prod(shape, dtype=np.int64))])
    texts = {name: fields.text(name) for name in ("name", "unit", "label", "kind", "queries", "keys", "weights")}
    return {**texts, "layer": fields.integer("layer"), "shape": list(shape)}


def time_lapse_entry(looks: Sequence[Look], tensors: PageTensors) -> dict[str, Any] | None:
    """Looks as a part of a page: of many as many as fit, evenly spaced, with the last one; None if there are none."""
    sizes = [round(sum(len(each["weights"]) for each in look["attentions"])) + 2000 for look in looks]
    chosen = [looks[n] for n in indices_that_fit(sizes, ROOM)]
    if not chosen:
        return None
    last = chosen[-1]
    return {
        "given": last["given"],
        "left_out": len(looks) - len(chosen),
        "attentions": [
            {name: value for name, value in each.items() if name not in ("weights", "shape")}
            for each in last["attentions"]
        ],
        "looks": [
            {
                "step": look["step"],
                "loss": look["loss"],
                "sequences": look["sequences"],
                "weights": {each["name"]: tensors.full(_unpacked(each)) for each in look["attentions"]},
                "log_probabilities": look["log_probabilities"],
                "came": look["came"],
            }
            for look in chosen
        ],
    }
