"""Traces as text: one JSON object a line, arrays as base64 of little-endian numbers, steps one after the other.

The fields are in docs/decoding.md. Reading trusts nothing: what is damaged, foreign or does not add up is a DataError
that names the field.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headway.decoding.trace import Trace, TraceStep
from headway.decoding.trace.checks import check
from headway.decoding.trace.fields import Fields
from headway.errors import DataError

VERSION = 1
NAME = "headway_trace"  # its value is the version
SUM = "crc32"  # of all other fields as `_compact` writes them


def to_json(trace: Trace) -> str:
    """One line, without its end."""
    words = sorted(trace.pieces)
    fields: dict[str, Any] = {
        NAME: VERSION,
        "source": trace.source,
        "source_pieces": list(trace.source_pieces),
        "beam": trace.beam,
        "n_best": trace.n_best,
        "penalty": trace.penalty,
        "alpha": float(trace.alpha),
        "start": trace.start,
        "stop": trace.stop,
        "model_steps": list(trace.model_steps),
        "vocabulary": words,
        "pieces": [trace.pieces[word] for word in words],
        "texts": list(trace.texts),
        **_columns(trace.steps),
    }
    return _compact({**fields, SUM: _sum(fields)})


def from_json(line: str | bytes) -> Trace:
    """What `to_json` wrote. Raises DataError naming the field."""
    return _trace(_parsed(line))


def read_traces(path: Path) -> Iterator[Trace]:
    """The traces of a file, line by line. Raises DataError naming the file, the line and the field."""
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, 1):
                try:
                    yield from_json(line)
                except DataError as error:
                    raise DataError(f"{path}: line {number}: {error}") from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or type(error).__name__})") from error


def _columns(steps: tuple[TraceStep, ...]) -> dict[str, Any]:
    """The steps, each of their parts as one array."""
    looking = [step for step in steps if step.levels is not None]
    return {
        "lengths": [step.length for step in steps],
        "norms": [float(step.norm) for step in steps],
        "candidates": [len(step.totals) for step in steps],
        "open": [len(step.kept) for step in steps],
        "totals": _pack((step.totals for step in steps), "<f4"),
        "nats": _pack((step.nats for step in steps), "<f4"),
        "parents": _pack((step.parents for step in steps), "<u4"),
        "words": _pack((step.words for step in steps), "<u4"),
        "ended": _pack((step.ended for step in steps), "u1"),
        "kept": _pack((step.kept for step in steps), "<u4"),
        "attending": [len(step.levels) for step in looking if step.levels is not None] if looking else None,
        "attention": _pack((step.levels for step in looking if step.levels is not None), "u1") if looking else None,
        "attention_scales": _pack((s.scales for s in looking if s.scales is not None), "<f4") if looking else None,
    }


def _pack(arrays: Iterable[NDArray[Any]], dtype: str) -> str:
    return base64.b64encode(b"".join(array.astype(dtype).tobytes() for array in arrays)).decode()


def _compact(fields: dict[str, Any]) -> str:
    return json.dumps(fields, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _sum(fields: dict[str, Any]) -> int:
    return zlib.crc32(_compact(fields).encode(errors="surrogatepass"))


def _parsed(line: str | bytes) -> Fields:
    """The object of a line, of this version and with the right sum."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError) as error:  # bytes that are no UTF-8 are a ValueError too
        raise DataError(f"not a line of JSON ({type(error).__name__})") from None
    if not isinstance(found, dict) or NAME not in found:
        raise DataError(f"{NAME}: missing, so this is no trace of headway")
    fields = Fields(dict(found))
    version = fields.whole(NAME)
    if version != VERSION:
        raise DataError(f"{NAME}: version {version}, this headway reads version {VERSION}")
    expected = fields.whole(SUM, most=2**32 - 1)
    try:
        actual = _sum({name: value for name, value in found.items() if name != SUM})
    except (ValueError, RecursionError):  # NaN, which is no JSON
        raise DataError(f"{SUM}: a field holds a number that is none") from None
    if actual != expected:
        raise DataError(f"{SUM}: {actual} where {expected} was written, so the line is damaged")
    return fields


def _trace(fields: Fields) -> Trace:
    words = fields.wholes("vocabulary", most=2**32 - 1)
    pieces = fields.texts("pieces", count=len(words))
    trace = Trace(
        source=fields.text("source"),
        source_pieces=fields.texts("source_pieces"),
        pieces=dict(zip(words, pieces, strict=True)),
        beam=fields.whole("beam", least=1),
        n_best=fields.whole("n_best", least=1),
        penalty=fields.penalty("penalty"),
        alpha=fields.number("alpha"),
        start=fields.whole("start"),
        stop=fields.whole("stop"),
        model_steps=fields.wholes("model_steps"),
        texts=fields.texts("texts"),
        steps=(),
    )
    steps = _steps(fields, len(trace.source_pieces))
    fields.expect_nothing_else()
    return check(trace, steps)


def _steps(fields: Fields, source: int) -> tuple[TraceStep, ...]:
    lengths = fields.wholes("lengths")
    norms = fields.numbers("norms", count=len(lengths))
    candidates, kept = (fields.wholes(name, count=len(lengths)) for name in ("candidates", "open"))
    looking = fields.wholes("attending", count=len(lengths)) if fields.there("attending") else None
    totals, nats = (fields.arrays(name, "<f4", candidates) for name in ("totals", "nats"))
    parents, words = (fields.arrays(name, "<u4", candidates) for name in ("parents", "words"))
    ended = fields.arrays("ended", "u1", candidates)
    slots = fields.arrays("kept", "<u4", kept)
    levels: list[NDArray[Any]] | None = None
    scales: list[NDArray[Any]] | None = None
    if looking is not None:
        levels = fields.arrays("attention", "u1", [rows * source for rows in looking])
        scales = fields.arrays("attention_scales", "<f4", looking)
    elif fields.there("attention") or fields.there("attention_scales"):
        raise DataError("attending: null, but there is attention")
    return tuple(
        TraceStep(
            length=lengths[n],
            norm=norms[n],
            totals=totals[n],
            nats=nats[n],
            parents=parents[n].astype(np.int64),
            words=words[n].astype(np.int64),
            ended=ended[n].astype(np.bool_),
            kept=slots[n].astype(np.int64),
            levels=None if levels is None else levels[n].reshape(len(levels[n]) // source if source else 0, source),
            scales=None if scales is None else scales[n],
        )
        for n in range(len(lengths))
    )
