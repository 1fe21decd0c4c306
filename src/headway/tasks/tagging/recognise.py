"""Recognising tagged sentences: the ending of a CoNLL file, columns that end in tags, lists of words and of tags."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from pathlib import Path

from headway.data.datasets import kinds_of
from headway.data.files import without_gz
from headway.data.tables import read_objects
from headway.data.tagged_spans import SPAN_KEYS, looks_like_span
from headway.data.tagged_text import COLUMNS, TAG_KEYS, WORD_KEYS, has_spans, looks_tagged, tagged_files
from headway.errors import DataError
from headway.tasks.proposal import Confidence, Proposal

PRESET = "bert-tagger"
CHARACTERS = {"data.tokenizer": "characters", "task.words": "characters"}  # for words of one letter, as of proteins
KEYS = (WORD_KEYS, TAG_KEYS)
FIRST = 100  # objects of a JSONL file that are looked at
OTHER = (".tsv", ".txt")  # endings that such files may have beside others


def recognise(spec: str, given: Mapping[str, str]) -> Proposal | None:
    """What to train on sentences with tags."""
    kinds = kinds_of(spec)
    if kinds:
        if "sentences with tags" not in kinds:
            return None
        settings = CHARACTERS if spec == "protein" else {}
        return _proposal(f"the built-in set {spec}", settings)
    try:
        train = tagged_files(Path(spec).expanduser())["train"]
    except DataError:
        return None
    name = without_gz(train).lower()
    ending = next((each for each in COLUMNS if name.endswith(each)), None)
    if ending is not None:
        return _proposal(f"the ending {ending} of {train.name}", _OWN)
    if name.endswith(".jsonl"):
        return _proposal(f"{sign} of {train.name}", _OWN) if (sign := _sign(train)) else None
    if (name.endswith(OTHER) or Path(spec).is_dir()) and train.is_file() and looks_tagged(train):
        return _proposal(f"the columns of {train.name}, of which the last has tags (B-, I-, O)", _OWN)
    return None


# Of a user's own sentences: subwords, since most words are rare, and dropout, since there are few.
_OWN: dict[str, object] = {
    "data.tokenizer": "bpe",
    "data.tokenizer.vocab": 8000,
    "data.tokenizer.fit": True,
    "model.encoder.dropout": 0.1,
}


def _sign(path: Path) -> str:
    """What shows that the first objects of a JSONL file have words and tags, or spans of a text; "" if nothing does."""
    try:
        rows = [row for _, row in islice(read_objects(path), FIRST)]
    except DataError:
        return ""
    for row in rows[:1]:
        words, tags = (next((key for key in keys if isinstance(row.get(key), list)), "") for keys in KEYS)
        if words and tags:
            return f"the lists {words} and {tags}"
    for row in rows:  # a text may have no entity
        key = next((key for key in SPAN_KEYS if row.get(key)), "")
        if key and has_spans(row) and looks_like_span(row[key][0]):
            return f"the spans in {key}"
    return ""


def _proposal(sign: str, settings: Mapping[str, object]) -> Proposal:
    return Proposal(
        preset=PRESET, found="sentences with tags", sign=sign, confidence=Confidence.FORMAT, settings=settings
    )
