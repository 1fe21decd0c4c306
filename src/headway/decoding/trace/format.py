"""Traces as JSON Lines: one object per search, arrays as base64 of little-endian numbers, steps concatenated.

The fields are in docs/decoding.md. Files are untrusted: a damaged, foreign or inconsistent trace raises a DataError
that names the field.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast, get_args

import numpy as np
from numpy.typing import NDArray

from headway.checked_json import JsonFields
from headway.decoding.beam import Penalty
from headway.decoding.trace import Trace, TraceStep
from headway.decoding.trace.checks import check
from headway.documents import open_regular, parse_json
from headway.errors import DataError
from headway.limits import expect_within, limit
from headway.storage.commit import commit_stream

VERSION = 1
NAME = "headway_trace"  # its value is the version
SUM = "crc32"  # of all other fields as `_compact` writes them


def to_json(trace: Trace) -> str:
    """One line, without the line break."""
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
    """Parse a line of `to_json`. Raises DataError naming the field."""
    return _trace(_parsed(line))


@contextmanager
def trace_writer(path: Path) -> Iterator[Callable[[Trace], None]]:
    """What writes traces to a file, one after the other; the file appears when all are written."""
    with commit_stream(path) as file:
        yield lambda trace: file.line(to_json(trace))


def read_traces(path: Path) -> Iterator[Trace]:
    """The traces of a file, line by line. Raises DataError naming the file, the line and the field."""
    try:
        with open_regular(path) as file:
            for number, line in enumerate(iter(lambda: file.readline(limit("document-bytes") + 1), b""), 1):
                try:
                    expect_within("document-bytes", len(line), "a trace", DataError)
                    yield from_json(line)
                except DataError as error:
                    raise DataError(f"{path}: line {number}: {error}") from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or type(error).__name__})") from error


def _columns(steps: tuple[TraceStep, ...]) -> dict[str, Any]:
    """The steps, with each of their parts as one array."""
    attending = [step for step in steps if step.levels is not None]
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
        "attending": [len(step.levels) for step in attending if step.levels is not None] if attending else None,
        "attention": _pack((step.levels for step in attending if step.levels is not None), "u1") if attending else None,
        "attention_scales": _pack((s.scales for s in attending if s.scales is not None), "<f4") if attending else None,
    }


def _pack(arrays: Iterable[NDArray[Any]], dtype: str) -> str:
    return base64.b64encode(b"".join(array.astype(dtype).tobytes() for array in arrays)).decode()


def _compact(fields: dict[str, Any]) -> str:
    return json.dumps(fields, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _sum(fields: dict[str, Any]) -> int:
    return zlib.crc32(_compact(fields).encode(errors="surrogatepass"))


def _parsed(line: str | bytes) -> JsonFields:
    """The object of a line, after version and checksum are verified."""
    found = parse_json(line, "", surrogates=True)  # a string with one is refused with its name
    if not isinstance(found, dict) or NAME not in found:
        raise DataError(f"{NAME}: missing, so this is not a headway trace")
    fields = JsonFields(found)
    version = fields.integer(NAME)
    if version != VERSION:
        raise DataError(f"{NAME}: version {version}, this headway reads version {VERSION}")
    expected = fields.integer(SUM, most=2**32 - 1)
    actual = _sum({name: value for name, value in found.items() if name != SUM})
    if actual != expected:
        raise DataError(f"{SUM}: {actual}, expected {expected}: the line is damaged")
    return fields


def _trace(fields: JsonFields) -> Trace:
    words = fields.integers("vocabulary", most=2**32 - 1)
    pieces = fields.texts("pieces", count=len(words))
    trace = Trace(
        source=fields.text("source"),
        source_pieces=fields.texts("source_pieces"),
        pieces=dict(zip(words, pieces, strict=True)),
        beam=fields.integer("beam", least=1),
        n_best=fields.integer("n_best", least=1),
        penalty=_penalty(fields),
        alpha=fields.number("alpha"),
        start=fields.integer("start"),
        stop=fields.integer("stop"),
        model_steps=fields.integers("model_steps"),
        texts=fields.texts("texts"),
        steps=(),
    )
    steps = _steps(fields, len(trace.source_pieces))
    fields.expect_no_others()
    return check(trace, steps)


def _penalty(fields: JsonFields) -> Penalty:
    value = fields.text("penalty")
    if value not in get_args(Penalty):
        fields.reject("penalty", value, " or ".join(get_args(Penalty)))
    return cast(Penalty, value)


def _steps(fields: JsonFields, source: int) -> tuple[TraceStep, ...]:
    lengths = fields.integers("lengths")
    norms = fields.numbers("norms", count=len(lengths))
    candidates, kept = (fields.integers(name, count=len(lengths)) for name in ("candidates", "open"))
    attending = fields.integers("attending", count=len(lengths)) if fields.present("attending") else None
    totals, nats = (fields.arrays(name, "<f4", candidates) for name in ("totals", "nats"))
    parents, words = (fields.arrays(name, "<u4", candidates) for name in ("parents", "words"))
    ended = fields.arrays("ended", "u1", candidates)
    slots = fields.arrays("kept", "<u4", kept)
    levels: list[NDArray[Any]] | None = None
    scales: list[NDArray[Any]] | None = None
    if attending is not None:
        levels = fields.arrays("attention", "u1", [rows * source for rows in attending])
        scales = fields.arrays("attention_scales", "<f4", attending)
    elif fields.present("attention") or fields.present("attention_scales"):
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
