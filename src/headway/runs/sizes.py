"""How large a run is on disk, by the kind of what it holds. Nothing is read but the names and sizes of its files."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from headway.interop.hf_reference import REFERENCE
from headway.storage.manifest import INT8
from headway.storage.targets import DRAFT
from headway.training.checkpoints import TRAINER
from headway.training.log import LOG

LOG_ASIDE = "log-damaged.jsonl"  # the log as it was, where training mended one
PAGES, TRACES = ".html", ".jsonl"  # endings of what `look` and `translate --trace` write
ASIDE = "damaged-"  # checkpoints that training set aside


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSizes:
    """The bytes of a run's files by kind."""

    checkpoints: int = 0  # weights, facts and manifests
    optimiser: int = 0  # the training state of the checkpoints
    int8: int = 0
    reference: int = 0
    pages: int = 0  # pages and traces
    damaged: int = 0  # checkpoints and logs that were set aside, unfinished writes
    other: int = 0

    @property
    def total(self) -> int:
        """All of them."""
        return sum(getattr(self, name) for name in self.__dataclass_fields__)


def run_sizes(folder: Path) -> RunSizes:
    """The sizes of a run; links are not followed, and files that are removed meanwhile not counted."""
    found = dict.fromkeys(RunSizes.__dataclass_fields__, 0)
    for path, size in _files(folder):
        found[kind_of(path.relative_to(folder))] += size
    return RunSizes(**found)


def kind_of(path: Path) -> str:
    """The kind of a file by its path in the run: the name of a field of RunSizes."""
    first, name = path.parts[0], path.name
    if any(part.startswith((DRAFT, ASIDE)) for part in path.parts) or first == LOG_ASIDE:
        return "damaged"
    if first == "checkpoints":
        return "optimiser" if name == TRAINER else "checkpoints"
    if first == INT8:
        return "int8"
    if first == REFERENCE:
        return "reference"
    written = len(path.parts) == 1 and path.suffix in (PAGES, TRACES) and first != LOG
    return "pages" if written else "other"


def size_of(path: Path) -> int:
    """The bytes of a file, or of all files in a folder; 0 if it is gone."""
    return sum(size for _, size in _files(path))


def _files(path: Path) -> Iterator[tuple[Path, int]]:
    """Each regular file at or below a path, with its size."""
    with contextlib.suppress(OSError):  # removed meanwhile, as a training run's old checkpoint
        found = path.lstat()
        if stat.S_ISREG(found.st_mode):
            yield path, found.st_size
        elif stat.S_ISDIR(found.st_mode):
            for entry in sorted(os.listdir(path)):
                yield from _files(path / entry)
