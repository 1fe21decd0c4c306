"""Texts with labels, row by row: from tables, from two aligned files, or from a folder of text files for each class.

A row has one text or two, and its labels: one class, any number of them, or a number. A row without a text or with a
label that cannot be one is an error that names it, unless `data.skip_bad` leaves such rows out.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import compress
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from headway.data.config import DataConfig
from headway.data.files import Errors, listed, listing, read_chunks, without_gz
from headway.data.image_files import subfolders
from headway.data.split_files import SPLITS, split_name
from headway.data.tables import SUFFIXES, read_rows, suffix
from headway.data.text_files import load_parallel, table_splits
from headway.documents import parse_json
from headway.errors import DataError, one_line, shown
from headway.limits import expect_within

LabelKind = Literal["single", "multi", "number"]
TEXT_ENDINGS = (".txt", ".text", ".md", "")  # of the files of a class; newsgroup messages have no ending
WHAT = "texts with classes"
HELD_OUT = 10  # a tenth is held out where there is no val split
TRUE, FALSE = ("1", "1.0", "true"), ("0", "0.0", "false", "")
SKIP = "remove it, or pass --data.skip_bad true to leave such rows out"
JOINED = "\x1f"  # between the labels of a row in a digest
MAX_CLASSES = 200  # different whole numbers that are still taken for classes


@dataclass(frozen=True, slots=True)
class LabelledRow:
    """One text, or a pair, with its labels: one for a class or a number (as text), any number of several classes."""

    labels: tuple[str, ...]
    texts: tuple[str, ...]


class BadRowError(DataError):
    """A row without a text, with a label that cannot be one, or with more or fewer cells than the header."""


ReadLabels = Callable[[str, Sequence[str]], tuple[str, ...]]  # a place for messages, the cells -> labels


def read_class(where: str, cells: Sequence[str]) -> tuple[str, ...]:
    """One class. Raises BadRowError for an empty cell or NaN."""
    if not (name := cells[0].strip()) or name in ("nan", "NaN"):
        raise BadRowError(f"{where}: the label is {name or 'empty'}, expected a class; {SKIP}")
    return (cells[0],)


def read_number(where: str, cells: Sequence[str]) -> tuple[str, ...]:
    """A number as text. Raises BadRowError if it is empty, NaN or infinite, DataError if it is not a number."""
    try:
        finite = math.isfinite(float(cells[0]))
    except ValueError:
        if cells[0].strip():
            raise DataError(
                f"{where}: the label {shown(cells[0])} is not a number; --task.labels single is for classes"
            ) from None
        raise BadRowError(f"{where}: the label is empty, expected a number; {SKIP}") from None
    if not finite:
        raise BadRowError(f"{where}: the label is {cells[0].strip()}, expected a finite number; {SKIP}")
    return (cells[0].strip(),)


def read_separated_labels(where: str, cells: Sequence[str], *, separator: str) -> tuple[str, ...]:
    """The labels in a cell: a JSON list, or separated; none in an empty one. Raises BadRowError for NaN."""
    cell = cells[0].strip()
    if cell.startswith("[") and cell.endswith("]"):
        found = parse_json(cell, where)
        if not isinstance(found, list) or not all(isinstance(each, str | int) for each in found):
            raise DataError(f"{where}: the label {shown(cell)} is not a JSON list of names")
        names = [str(each) for each in found]
    else:
        names = [name for each in cell.split(separator) if (name := each.strip())]
    if "nan" in names or "NaN" in names:
        raise BadRowError(f"{where}: the label is NaN, expected names separated by {separator!r}; {SKIP}")
    return tuple(dict.fromkeys(names))


def read_flags(where: str, cells: Sequence[str], *, names: Sequence[str]) -> tuple[str, ...]:
    """The names of the columns that have a 1. Raises DataError for a cell that is neither 0 nor 1."""
    for name, cell in zip(names, cells, strict=True):
        if cell.strip().lower() not in (*TRUE, *FALSE):
            raise DataError(f"{where}: column {shown(name)} is {shown(cell)}, expected 0 or 1")
    return tuple(name for name, cell in zip(names, cells, strict=True) if cell.strip().lower() in TRUE)


@dataclass(slots=True, kw_only=True)
class CheckedRows:
    """Rows of cells, labels first, as labelled rows. Raises DataError naming the row, or for data without rows.

    `left_out` is the number of rows that the last pass skipped.
    """

    name: str
    cells: Callable[[], Iterable[tuple[str, ...]]]
    labels: int  # cells of a row that are labels; the others are texts
    read: ReadLabels
    skip_bad: bool = False
    left_out: int = field(default=0, init=False)
    skipped: int = field(default=0, init=False)  # so far, in the pass that is going on

    def __iter__(self) -> Iterator[LabelledRow]:
        count = 0
        self.skipped = 0
        for number, cells in enumerate(self.cells(), start=1):
            try:
                row = self._row(f"{self.name}: row {number}", cells)
            except BadRowError as error:
                self.skip(error)
                continue
            yield row
            count += 1
        self.left_out = self.skipped
        if not count:
            raise DataError(f"{self.name}: no rows with a text and a label, expected at least 1")

    def skip(self, error: DataError) -> None:
        """Count a bad row of this pass. Raises BadRowError unless bad rows are left out."""
        if not self.skip_bad:
            raise error if isinstance(error, BadRowError) else BadRowError(f"{error}; {SKIP}")
        self.skipped += 1

    def _row(self, where: str, cells: tuple[str, ...]) -> LabelledRow:
        texts = cells[self.labels :]
        if not all(map(str.strip, texts)):
            which = "" if len(texts) == 1 else "first " if not texts[0].strip() else "second "
            raise BadRowError(f"{where}: the {which}text is empty; {SKIP}")
        return LabelledRow(self.read(where, cells[: self.labels]), texts)


@dataclass(frozen=True, slots=True)
class ChosenRows:
    """Some of the rows of a split."""

    rows: Iterable[LabelledRow]
    chosen: NDArray[np.bool_]

    def __iter__(self) -> Iterator[LabelledRow]:
        return compress(self.rows, self.chosen)


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelledRows:
    """Rows by split; `name` identifies the set in messages."""

    name: str
    splits: Mapping[str, Iterable[LabelledRow]]
    sources: tuple[CheckedRows, ...] = ()
    notes: tuple[str, ...] = ()  # for the user: how val was held out

    @property
    def left_out(self) -> int:
        """Rows that the last pass over every split skipped."""
        return sum(each.left_out for each in self.sources)

    def fingerprint(self, split: str) -> str:
        """A digest of the content of a split, independent of files and formats."""
        digest = hashlib.sha256()
        for row in self.splits[split]:
            for part in (JOINED.join(row.labels), *row.texts):
                digest.update(f"{part}\0".encode())  # texts do not contain NUL
        return digest.hexdigest()


def load_rows(data: DataConfig, kind: LabelKind, *, whole: bool = False) -> LabelledRows:
    """The rows of a table, of a folder with one per split, or of a folder of text files for each class.

    Without a val split a tenth is held out (`hold_out`); `whole` makes all rows the split `test` instead, if there are
    no splits. Raises DataError for what cannot be read.
    """
    path = Path(data.spec).expanduser()
    if path.is_dir() and (folders := class_folders(path)):
        if kind != "single":
            raise DataError(f"{path}: a folder for each class, which task.labels={kind} cannot be read from")
        if data.text2:
            raise DataError(
                f"{path}: a folder for each class has one text a file; data.text2={data.text2} is for tables"
            )
        splits: dict[str, CheckedRows] = {
            split: CheckedRows(
                name=str(root), cells=partial(_files, root, data.errors), labels=1, read=read_class,
                skip_bad=data.skip_bad,
            )
            for split, root in folders.items()
        }  # fmt: skip
    else:
        splits = _tables(path, data, kind)
    found = LabelledRows(name=str(path), splits=splits, sources=tuple(splits.values()))
    if whole and splits.keys() == {"train"}:
        return replace(found, splits={**splits, "test": splits["train"]})
    return found if "val" in splits else hold_out(found, kind)


def class_folders(path: Path) -> dict[str, Path]:
    """The folders that hold a folder of text files for each class, by split; empty if it is not such a folder."""
    there = subfolders(path)
    splits = {split_name(each.name): each for each in there if split_name(each.name) in SPLITS}
    if "train" not in splits:
        splits = {"train": path}
    classes = subfolders(splits["train"])
    found = len(classes) > 1 and all(any(_is_text(file) for file in listing(each)) for each in classes)
    return splits if found and all(_is_text(file) for each in classes for file in listing(each)) else {}


def text_files(folder: Path) -> list[Path]:
    """The text files of a class."""
    return [file for file in listing(folder) if _is_text(file)]


def _is_text(path: Path) -> bool:
    return Path(without_gz(path)).suffix.lower() in TEXT_ENDINGS


def _files(root: Path, errors: Errors) -> Iterator[tuple[str, str]]:
    """The class and the text of each file, by class and then by name; the last line end is left out."""
    for folder in subfolders(root):
        for file in text_files(folder):
            parts: list[str] = []
            for chunk in read_chunks(file, errors=errors):
                parts.append(chunk)
                expect_within("cell-bytes", sum(map(len, parts)), f"{file}, at least", DataError)
            yield folder.name, "".join(parts).removesuffix("\n")


def _tables(path: Path, data: DataConfig, kind: LabelKind) -> dict[str, CheckedRows]:
    labels = tuple(data.label.split(",")) if kind == "multi" and "," in data.label else (data.label,)
    texts = (data.text, *([data.text2] if data.text2 else []))
    twice = next((name for n, name in enumerate((*labels, *texts)) if name in (*labels, *texts)[:n]), None)
    if twice is not None:
        raise DataError(f"{path}: column {shown(twice)} is named twice among label and text, expected once")
    read: ReadLabels = read_class if kind == "single" else read_number
    if kind == "multi":
        read = partial(read_separated_labels, separator=data.separator)
        if len(labels) > 1:
            read = partial(read_flags, names=labels)

    def rows(file: Path) -> CheckedRows:
        def cells() -> Iterable[tuple[str, ...]]:
            columns = (*labels, *texts)
            return read_rows(file, *columns, errors=data.errors, numbers=True, values=labels, on_bad_row=checked.skip)

        checked = CheckedRows(name=str(file), cells=cells, labels=len(labels), read=read, skip_bad=data.skip_bad)
        return checked

    if path.is_dir() and (tables := table_splits(path)):
        if "train" not in tables:
            raise DataError(f"{path}: no train split; splits: {listed(tuple(tables))}")
        return {split: rows(file) for split, file in tables.items()}
    if path.is_file() and suffix(path):
        return {"train": rows(path)}
    if path.is_dir() and (data.text2 or len(labels) > 1):
        raise DataError(f"{path}: no train{{{','.join(SUFFIXES)}}}, which pairs and several labels are read from")
    # Two files aligned by line, `train.label` and `train.text`; or the error for any other file.
    pairs = load_parallel(path, data.label, data.text, errors=data.errors, numbers=True, what=WHAT)
    return {
        split: CheckedRows(
            name=f"{path}, {one_line(split)}", cells=partial(pairs.pairs, split), labels=1, read=read,
            skip_bad=data.skip_bad,
        )
        for split in pairs.splits
    }  # fmt: skip


def hold_out(rows: LabelledRows, kind: LabelKind) -> LabelledRows:
    """The same rows with a tenth of train as val.

    Classes: the last tenth of each class, as files are often in an order; a class with a single row stays in train.
    Several labels and numbers: the last tenth, or every tenth row where the last tenth has one set of labels or the
    numbers are sorted; a row with a label that the rest lacks stays in train.
    """
    labels = [row.labels for row in rows.splits["train"]]
    if len(labels) < 2:
        raise DataError(f"{rows.name}: {len(labels)} row, expected at least 2: a tenth is val")
    if kind == "single":
        expect_classes(rows.name, [each[0] for each in labels])
    held = np.zeros(len(labels), bool)
    notes: tuple[str, ...] = ()
    if kind == "single":
        every = np.asarray([each[0] for each in labels])
        for label in np.unique(every):
            places = np.flatnonzero(every == label)
            if len(places) > 1:
                held[places[-max(len(places) // HELD_OUT, 1) :]] = True
    else:
        held[-max(len(labels) // HELD_OUT, 1) :] = True
        if _sorted(labels) if kind == "number" else len(set(compress(labels, held))) == 1 < len(set(labels)):
            held = np.arange(len(labels)) % HELD_OUT == min(HELD_OUT, len(labels)) - 1
            notes = ("the rows are sorted by label: every tenth row is held out for validation",)
    if kind == "multi":
        known = {name for each in compress(labels, ~held) for name in each}
        held &= np.asarray([known.issuperset(each) for each in labels])
    if not held.any() or held.all():
        raise DataError(f"{rows.name}: no row can be held out: each has a unique label; add rows or a val split")
    whole = rows.splits["train"]
    splits = {**rows.splits, "train": ChosenRows(whole, ~held), "val": ChosenRows(whole, held)}
    return replace(rows, splits=splits, notes=notes)


def _sorted(labels: Sequence[tuple[str, ...]]) -> bool:
    numbers = np.asarray([float(each[0]) for each in labels])
    steps = np.diff(numbers)
    return bool(steps.any()) and bool((steps >= 0).all() or (steps <= 0).all())


def expect_classes(name: str, labels: Sequence[str]) -> None:
    """Raise DataError for labels that are numbers where classes are expected: fractions, or very many of them."""
    different = sorted(set(labels))
    try:
        numbers = [float(each) for each in different]
    except ValueError:
        return
    fractions = [text for text, value in zip(different, numbers, strict=True) if not value.is_integer()]
    if not fractions and len(different) <= MAX_CLASSES:
        return
    example = (fractions or different)[0]
    raise DataError(
        f"{name}: the labels are numbers ({shown(example)} and {len(different) - 1:,} others), expected classes; "
        "pass --task.labels number to predict the number"
    )
