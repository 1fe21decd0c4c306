"""The verbs of a run's pipeline as calls with JSON arguments: what `/v1/VERB` answers, computed by the engine.

A verb is reachable if it is in this table and the pipeline declares the capability of that name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from headway.errors import DataError
from headway.runs.run import Run

Arguments = Mapping[str, Any]


def _score(run: Run, texts: Sequence[str], arguments: Arguments) -> list[Any]:
    from headway.tasks.capabilities import Scores

    scores = run.require(Scores)
    found = []
    for text in texts:
        pairs = scores.score_line(text)
        tokens = [{"token": token, "log_prob": nats} for token, nats in pairs]
        found.append({"total": sum(nats for _, nats in pairs), "tokens": tokens})
    return found


def _embed(run: Run, texts: Sequence[str], arguments: Arguments) -> list[Any]:
    from headway.tasks.capabilities import Embeds

    vectors: list[Any] = run.require(Embeds).embed(texts).tolist()
    return vectors


def _classify(run: Run, texts: Sequence[str], arguments: Arguments) -> list[Any]:
    from headway.tasks.capabilities import Classifies

    classifier = run.require(Classifies)
    if classifier.reads != "text":
        raise DataError(f"this run classifies a {classifier.reads}, not a text: use `headway classify`")
    top = {"top": arguments["top"]} if arguments.get("top") is not None else {}
    return [each.to_json("text") for each in classifier.classify(texts, **top)]


def _tag(run: Run, texts: Sequence[str], arguments: Arguments) -> list[Any]:
    from headway.tasks.capabilities import Tags

    found = run.require(Tags).tag(texts)
    return [{"words": each.words, "tags": each.tags, "probabilities": each.probabilities} for each in found]


def _translate(run: Run, texts: Sequence[str], arguments: Arguments) -> list[Any]:
    beam, best = arguments.get("beam"), arguments.get("n_best") or 1
    if beam is None and best > getattr(run.task, "beam", best):
        beam = best  # as many hypotheses as are asked for
    found = run.translate(texts, beam=beam, n_best=best)
    return [{"translations": lines} for lines in found]


VERBS: dict[str, Callable[[Run, Sequence[str], Arguments], list[Any]]] = {
    "score": _score,
    "embed": _embed,
    "classify": _classify,
    "tag": _tag,
    "translate": _translate,
}
OPTIONS = {"classify": ("top",), "translate": ("beam", "n_best")}  # of each verb, all positive integers
