"""Recognising questions with answers: SQuAD's JSON, or lines with a context, a question and answers."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from pathlib import Path

from headway.data.datasets import kinds_of
from headway.data.files import read_chunks, without_gz
from headway.data.questions import question_files
from headway.data.tables import read_objects
from headway.errors import DataError
from headway.tasks.proposal import Confidence, Proposal

PRESET = "bert-reader"
HEAD = 1 << 20  # characters of a file that are looked at
SIGNS = ('"data"', '"paragraphs"', '"context"', '"qas"')
KEYS = ("context", "question", "answers")
# Of a user's own questions: subwords, since most words are rare, and dropout, since there are few.
SETTINGS: Mapping[str, object] = {
    "data.tokenizer": "bpe",
    "data.tokenizer.vocab": 8000,
    "data.tokenizer.fit": True,
    "model.encoder.dropout": 0.1,
}


def recognise(spec: str, given: Mapping[str, str]) -> Proposal | None:
    """What to train on questions with answers."""
    kinds = kinds_of(spec)
    if kinds:
        return _proposal(f"the built-in set {spec}", {}) if "questions with answers" in kinds else None
    try:
        train = question_files(Path(spec).expanduser())["train"]
        name = without_gz(train).lower()
        if name.endswith(".json") and train.is_file():
            head = "".join(islice(read_chunks(train), 1))[:HEAD]
            if all(sign in head for sign in SIGNS):
                return _proposal(f"SQuAD's keys in {train.name}", SETTINGS)
        elif name.endswith(".jsonl") and train.is_file():
            _, row = next(read_objects(train), ("", {}))
            if all(key in row for key in KEYS):
                return _proposal(f"the keys {', '.join(KEYS)} of {train.name}", SETTINGS)
    except DataError:
        return None
    return None


def _proposal(sign: str, settings: Mapping[str, object]) -> Proposal:
    return Proposal(
        preset=PRESET, found="questions with answers", sign=sign, confidence=Confidence.FORMAT, settings=settings
    )
