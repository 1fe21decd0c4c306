"""The log of a run: a line of JSON for each step and each evaluation, with a checksum, so that damage shows."""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from headway.documents import parse_json
from headway.errors import DataError
from headway.storage.run_manifest import read_run_manifest
from headway.storage.targets import storage_errors

LOG = "log.jsonl"
CRC = "crc32"  # of the run's id and the JSON of the other keys; lines of older versions have none
TAIL = 2**16  # bytes at the end of a log in which its last entries are looked for

Entry = dict[str, Any]


def log_line(entry: Entry, run: str) -> str:
    """An entry as a line of the log of a run, which is named by its id."""
    return json.dumps({**entry, CRC: _crc(entry, run)})


def run_of_log(path: Path) -> str:
    """The id of the run that a log is of; empty for one without a manifest."""
    manifest = read_run_manifest(path.parent)
    return "" if manifest is None else manifest.run


def _crc(entry: Entry, run: str) -> int:
    return zlib.crc32(json.dumps(entry).encode(), zlib.crc32(run.encode()))


def read_log(path: Path) -> list[Entry]:
    """The entries of a log. A last line cut short by a crash and damaged lines are skipped."""
    return parse_log(path)[0]


def parse_log(path: Path) -> tuple[list[Entry], int]:
    """The entries of a log, and how many lines are damaged; a last line cut short by a crash is not counted.

    Raises StorageError for a log that cannot be read.
    """
    *lines, _unfinished = log_bytes(path).split(b"\n")
    return _parse(lines, run_of_log(path))


def last_entries(path: Path) -> tuple[Entry, Entry, int]:
    """The last training step and the last evaluation in a log, {} if it has none, and damaged lines near its end."""
    begin = max(0, path.stat().st_size - TAIL) if path.exists() else 0
    *lines, _unfinished = log_bytes(path, begin).split(b"\n")
    entries, damaged = _parse(lines[1:] if begin else lines, run_of_log(path))  # the first line of the tail may be cut
    steps = [entry for entry in entries if "val_loss" not in entry]
    evaluations = [entry for entry in entries if "val_loss" in entry]
    return steps[-1] if steps else {}, evaluations[-1] if evaluations else {}, damaged


class LogFollower:
    """The entries of a log that may still grow: each reading parses only the lines that are new."""

    def __init__(self, path: Path) -> None:
        self.path, self._entries, self._at, self._last = path, list[Entry](), 0, b""

    def entries(self) -> list[Entry]:
        """The entries so far. A log that was cut, as by a resumed training, is read anew. Raises StorageError."""
        read = log_bytes(self.path, self._at - len(self._last))
        if not read.startswith(self._last):
            self._entries, self._at, self._last = [], 0, b""
            read = log_bytes(self.path)
        *lines, _unfinished = read[len(self._last) :].split(b"\n")
        if lines:
            self._entries = [*self._entries, *_parse(lines, run_of_log(self.path))[0]]
            self._at += sum(len(line) + 1 for line in lines)
            self._last = lines[-1] + b"\n"
        return self._entries


def log_bytes(path: Path, begin: int = 0) -> bytes:
    """The bytes of a log from a position on, b"" without a log. Raises StorageError."""
    with storage_errors(path, doing="read"):
        if not os.path.lexists(path):
            return b""
        if not path.is_file():
            raise OSError("it is not a regular file")
        with path.open("rb") as file:
            file.seek(begin)
            return file.read()


def _parse(lines: Iterable[bytes], run: str) -> tuple[list[Entry], int]:
    found = [_entry(line) for line in lines]
    sealed = any(entry is not None and CRC in entry for entry in found)
    entries = []
    for entry in found:
        if entry is not None:
            crc = entry.pop(CRC, None)
            if (crc == _crc(entry, run)) if sealed else crc is None:
                entries.append(entry)
    return entries, len(found) - len(entries)


def _entry(line: bytes) -> Entry | None:
    """The entry of a line, its checksum included; None if it is damaged."""
    try:
        entry = parse_json(line, "", nonfinite=True)
    except DataError:
        return None
    sound = isinstance(entry, dict) and type(entry.get("step")) is int and entry["step"] >= 0
    sound = sound and ("loss" in entry or "val_loss" in entry)  # latest.json has a step too
    return entry if sound else None
