"""Entities as spans of characters, as annotation tools write them, to words with a tag each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from headway.data.words import WordKind, word_places
from headway.errors import DataError, one_line, shown

SPAN_KEYS = ("entities", "spans", "label", "labels")  # where the spans of a text stand: spaCy, Prodigy, doccano
STARTS, ENDS, LABELS = ("start", "start_offset"), ("end", "end_offset"), ("label", "entity", "type", "labels")


class Span(NamedTuple):
    """An entity: the characters from `start` to before `end`, and what it is."""

    start: int
    end: int
    label: str


def words_and_tags(where: str, text: str, given: Any, how: WordKind) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The words of a text and their tags in IOB2; a word that an entity begins or ends in is divided there.

    `given` is a list of spans: objects with start, end and label, or lists of these three. Raises DataError for a
    span that is not valid, and for two that overlap, as a word has one tag.
    """
    if not isinstance(given, list):
        raise DataError(f"{where}: the entities are a {type(given).__name__}, expected a list of spans")
    spans = sorted(_span(where, text, each) for each in given)
    for one, other in pairwise(spans):
        if other.start < one.end:
            raise DataError(
                f"{where}: the entities {_named(text, one)} and {_named(text, other)} overlap, and a word has one tag: "
                "keep one of them"
            )
    cuts = {place for span in spans for place in (span.start, span.end)}
    words, tags = [], []
    found = iter(spans)
    span, begun = next(found, None), False
    for begin, end in _cut(word_places(text, how), sorted(cuts)):
        while span is not None and span.end <= begin:
            span, begun = next(found, None), False
        inside = span is not None and span.start <= begin
        words.append(text[begin:end])
        tags.append(f"{'I' if begun else 'B'}-{span.label}" if inside and span is not None else "O")
        begun = inside
    return tuple(words), tuple(tags)


def _cut(words: Sequence[tuple[int, int]], cuts: Sequence[int]) -> list[tuple[int, int]]:
    """Words divided at these places, in order."""
    found = []
    for begin, end in words:
        places = [begin, *(place for place in cuts if begin < place < end), end]
        found += list(pairwise(places))
    return found


def looks_like_span(given: Any) -> bool:
    """Whether this is an object with a start and an end, or a list of two whole numbers and a label."""
    start, end, label = _parts(given)
    return type(start) is int and type(end) is int and isinstance(label, str | list)


def _parts(given: Any) -> list[Any]:
    """Start, end and label of a span as it was given; None for what is not there."""
    if isinstance(given, Mapping):
        return [next((given[key] for key in keys if key in given), None) for keys in (STARTS, ENDS, LABELS)]
    return list(given) if isinstance(given, list) and len(given) == 3 else [None] * 3


def _span(where: str, text: str, given: Any) -> Span:
    start, end, label = _parts(given)
    if isinstance(label, list) and len(label) == 1:
        (label,) = label
    if type(start) is not int or type(end) is not int or not isinstance(label, str) or not label.strip():
        raise DataError(f"{where}: {shown(given)} is not a span, expected start, end and label")
    if not 0 <= start < end <= len(text):
        raise DataError(f"{where}: the span {start} to {end} ({one_line(label)}) of a text of {len(text)} characters")
    if not text[start:end].strip():
        raise DataError(f"{where}: the span {start} to {end} ({one_line(label)}) has no word in it")
    return Span(start, end, label.strip())


def _named(text: str, span: Span) -> str:
    return f"{shown(text[span.start : span.end], 40)} ({one_line(span.label)}, {span.start} to {span.end})"
