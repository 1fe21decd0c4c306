"""Multiple-choice questions by their signs: a key with a list of choices, or several columns of choices."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from headway.data.choices import ANSWERS, CHOICES, choice_files, choice_rows
from headway.data.datasets import kinds_of
from headway.errors import DataError
from headway.tasks.proposal import Confidence, Proposal

PRESET = "bert-choice"
FOUND = "multiple-choice questions"
# Of a user's own questions: subwords, since most words are rare, and dropout, since there are few.
SETTINGS: Mapping[str, object] = {
    "data.tokenizer": "bpe",
    "data.tokenizer.vocab": 8000,
    "data.tokenizer.fit": True,
    "model.encoder.dropout": 0.1,
}


def recognise(spec: str, given: Mapping[str, str]) -> Proposal | None:
    """What to train on multiple-choice questions."""
    kinds = kinds_of(spec)
    if kinds:
        return _proposal(f"the built-in set {spec}", {}) if FOUND in kinds else None
    try:
        train = choice_files(Path(spec).expanduser())["train"]
        row = next(choice_rows(train), ("", {}))[1] if train.is_file() else {}
    except DataError:
        return None
    choices = next((key for key in CHOICES if isinstance(row.get(key), list | dict)), None)
    answer = next((key for key in ANSWERS if key in row), None)
    if choices is None or answer is None:
        return None
    return _proposal(f"the choices and the {answer} of {train.name}", SETTINGS)


def _proposal(sign: str, settings: Mapping[str, object]) -> Proposal:
    return Proposal(preset=PRESET, found=FOUND, sign=sign, confidence=Confidence.FORMAT, settings=settings)
