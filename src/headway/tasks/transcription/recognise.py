"""Recognising sounds with texts: a table with sound files and texts, or LibriSpeech's transcripts."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from headway.data.datasets import kinds_of
from headway.data.files import names
from headway.data.tables import suffix
from headway.data.transcript_files import libri_files, names_sounds, transcript_columns, transcript_tables
from headway.tasks.proposal import Confidence, Proposal

PRESET = "speech-ctc"


def recognise(spec: str, given: Mapping[str, str]) -> Proposal | None:
    """What to train on sounds with texts."""
    kinds = kinds_of(spec)
    if kinds:
        return _proposal(f"the built-in set {spec}") if kinds[0] == "sounds with texts" else None
    path = Path(spec).expanduser()
    tables = transcript_tables(path) if path.is_dir() else [path] if suffix(path) else []
    text = given.get("data.text", "")
    table = next((table for table in tables if names_sounds(table, text)), None)
    columns = None if table is None else transcript_columns(table, text)
    if table is not None and columns is not None:
        return _proposal(f"the columns {columns[0]} and {columns[1]} of {table.name}")
    files = libri_files(path) if path.is_dir() else []
    return _proposal(f"the transcripts {names(files, most=3)}") if files else None


def _proposal(sign: str) -> Proposal:
    return Proposal(preset=PRESET, found="sounds with texts", sign=sign, confidence=Confidence.FORMAT)
