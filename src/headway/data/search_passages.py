"""Passages to search: the lines of a text, the paragraphs of the files of a folder, or a column of a table.

Each passage has its place, the file and the line (of a table the row) where it begins, both from 1. Everything is
streamed: a corpus can be read any number of times and is never held in memory.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from headway.data.files import Errors, listed, read_lines, without_gz
from headway.data.tables import SUFFIXES, read_rows, suffix
from headway.errors import DataError

SplitBy = Literal["lines", "paragraphs"]
ENDINGS = (".txt", ".text", ".md", ".rst", ".org", ".tex", ".adoc", ".log")  # of the files that a folder is read for
LONGEST = 1_000  # characters of a paragraph: about the 256 tokens that small encoders read; the rest is a passage more
_SENTENCE_END = re.compile(r"(?<=[.!?…。！？])\s+")


@dataclass(frozen=True, slots=True)
class Passage:
    """A text and where it begins: a file, relative to the folder that is searched, and a line or row from 1."""

    text: str
    file: str
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Corpus:
    """What is searched: a file or a folder, how it is divided, and of a table the column."""

    path: Path
    text: str = "text"
    by: SplitBy | None = None  # None: a file by lines, a folder by paragraphs
    errors: Errors = "strict"

    def __iter__(self) -> Iterator[Passage]:
        """All passages in order, without empty ones. Raises DataError for what cannot be read."""
        if self.path.is_dir():
            for file in self.files():
                yield from self._divided(file, _name(file.relative_to(self.path)), self.by or "paragraphs")
        elif not self.path.exists():
            raise DataError(f"{self.path}: no such file or folder")
        elif suffix(self.path):
            rows = read_rows(self.path, self.text, errors=self.errors)
            name = _name(Path(self.path.name))
            yield from (Passage(text, name, n) for n, (cell,) in enumerate(rows, 1) if (text := cell.strip()))
        else:
            yield from self._divided(self.path, _name(Path(self.path.name)), self.by or "lines")

    def files(self) -> list[Path]:
        """The text files of a folder and of those below it, by name; links and hidden files are passed over.

        Raises DataError for a corpus without passages.
        """
        found: list[Path] = []
        others: list[str] = []
        for parent, folders, names in os.walk(self.path):
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            for path in (Path(parent, name) for name in sorted(names) if not name.startswith(".")):
                readable = without_gz(path).lower().endswith(ENDINGS) and path.is_file() and not path.is_symlink()
                (found if readable else others).append(path if readable else path.name)  # type: ignore[arg-type]
        if not found:
            there = listed(others) or "nothing"
            hint = f"a table ({', '.join(SUFFIXES)}) is named itself"
            raise DataError(f"{self.path}: no text file ({', '.join(ENDINGS)}); there are: {there}; {hint}")
        return found

    def _divided(self, file: Path, name: str, by: SplitBy) -> Iterator[Passage]:
        lines = enumerate(read_lines(file, errors=self.errors), 1)
        if by == "lines":
            yield from (Passage(text, name, number) for number, line in lines if (text := line.strip()))
            return
        held: list[str] = []
        first = size = 0
        for number, line in lines:
            for text in _pieces(line.strip()):
                if held and (not text or size + len(text) > LONGEST):
                    yield Passage("\n".join(held), name, first)
                    held, size = [], 0
                if text:
                    first = first if held else number
                    held.append(text)
                    size += len(text) + 1
        if held:
            yield Passage("\n".join(held), name, first)


def _name(path: Path) -> str:
    """A relative path as text; bytes that are no UTF-8 as U+FFFD."""
    return path.as_posix().encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _pieces(line: str) -> Iterator[str]:
    """A line, divided at sentence ends, else at spaces, else anywhere, where it is longer than a passage may be."""
    if len(line) <= LONGEST:
        yield line
        return
    held = ""
    for sentence in _SENTENCE_END.split(line):
        for part in _cut(sentence):
            if held and len(held) + 1 + len(part) > LONGEST:
                yield held
                held = ""
            held = f"{held} {part}" if held else part
    yield held


def _cut(sentence: str) -> Iterator[str]:
    while len(sentence) > LONGEST:
        at = sentence.rfind(" ", 1, LONGEST + 1)
        at = at if at > 0 else LONGEST
        yield sentence[:at]
        sentence = sentence[at:].lstrip()
    if sentence:
        yield sentence
