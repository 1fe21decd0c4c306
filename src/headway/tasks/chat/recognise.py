"""Recognising conversations: a JSONL file whose lines have messages with roles."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

from headway.data.chats import MESSAGES
from headway.data.datasets import kinds_of
from headway.data.tables import read_objects, suffix
from headway.data.text_files import table_splits
from headway.errors import DataError
from headway.tasks.proposal import Confidence, Proposal

PRESET = "gpt-chat"
LINES = 20  # looked at
# Conversations of people are longer than those of the built-in set, and have characters that no alphabet of a training
# split is sure to hold.
FIRST_MODEL: dict[str, object] = {
    "data.tokenizer": "byte-bpe",
    "data.tokenizer.vocab": 4000,
    "data.tokenizer.fit": True,
    "model.context": 512,
    "task.context": 512,
}


def recognise(spec: str) -> Proposal | None:
    """What to train on conversations; None for other data."""
    kinds = kinds_of(spec)
    if kinds:
        return _proposal(f"the built-in set {spec}", {}) if "conversations" in kinds else None
    path = Path(spec).expanduser()
    try:
        file = table_splits(path).get("train") if path.is_dir() else path
        if file is None or not file.is_file() or suffix(file) != ".jsonl":
            return None
        rows = [row for _, row in islice(read_objects(file, errors="replace"), LINES)]
    except DataError:
        return None
    if not rows or not all(_has_roles(row.get(MESSAGES)) for row in rows):
        return None
    return _proposal(f"the {MESSAGES} of {file.name}, each with a role and a content", FIRST_MODEL)


def _has_roles(value: object) -> bool:
    """Whether the first message of a list has a role; what else may be wrong with it, training says."""
    first = value[0] if isinstance(value, list) and value else None
    return isinstance(first, dict) and {"role", "content"} <= first.keys()


def _proposal(sign: str, settings: dict[str, object]) -> Proposal:
    return Proposal(preset=PRESET, found="conversations", sign=sign, confidence=Confidence.FORMAT, settings=settings)
