"""Recognising tagged sentences: the ending of a CoNLL file, columns that end in tags, lists of words and of tags."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from headway.data.datasets import kinds_of
from headway.data.files import without_gz
from headway.data.tables import read_objects
from headway.data.tagged_text import COLUMNS, TAG_KEYS, WORD_KEYS, looks_tagged, tagged_files
from headway.errors import DataError
from headway.tasks.proposal import Confidence, Proposal

PRESET = "bert-tagger"
CHARACTERS = {"data.tokenizer": "characters", "task.words": "characters"}  # for words of one letter, as of proteins
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
        return _proposal(f"the lists {' and '.join(keys)} of {train.name}", _OWN) if (keys := _keys(train)) else None
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


def _keys(path: Path) -> tuple[str, str] | None:
    """The keys of the words and the tags in the first object of a JSONL file."""
    try:
        _, row = next(read_objects(path), ("", {}))
    except DataError:
        return None
    found = [next((key for key in keys if isinstance(row.get(key), list)), None) for keys in (WORD_KEYS, TAG_KEYS)]
    words, tags = found
    return None if words is None or tags is None else (words, tags)


def _proposal(sign: str, settings: Mapping[str, object]) -> Proposal:
    return Proposal(
        preset=PRESET, found="sentences with tags", sign=sign, confidence=Confidence.FORMAT, settings=settings
    )
