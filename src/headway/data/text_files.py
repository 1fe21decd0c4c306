"""Text data sets: splits by name, streamed from files and never held in memory.

A split is an iterable that can be iterated repeatedly: pairs of lines for parallel text, chunks for plain text.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby, islice
from operator import itemgetter
from pathlib import Path
from typing import TypeVar

from headway.data.files import Errors, contents, in_lines, listed, listing, names, read_chunks, without_gz
from headway.data.other_files import advice
from headway.data.pair_rows import PairFiles, TableRows
from headway.data.parallel_files import aligned_files, expect_train
from headway.data.prepared_store import is_store
from headway.data.split_files import files_by_stem
from headway.data.tables import SUFFIXES, Pair, read_rows, suffix
from headway.errors import DataError, shown

S = TypeVar("S")


@dataclass(frozen=True, slots=True, kw_only=True)
class TextFiles:
    """Concatenated files, each with a final line end, from character `start` to `stop`. Raises DataError if empty."""

    paths: tuple[Path, ...]
    start: int = 0
    stop: int | None = None
    errors: Errors = "strict"

    def __iter__(self) -> Iterator[str]:
        return (chunk for _, chunk in self.pieces())

    def pieces(self) -> Iterator[tuple[int, str]]:
        """The text in chunks, each with the index of its file."""
        at, empty = 0, True
        for file, chunk in self._whole():
            stop = len(chunk) if self.stop is None else self.stop - at
            if part := chunk[max(self.start - at, 0) : max(stop, 0)]:
                yield file, part
                empty = False
            at += len(chunk)
            if self.stop is not None and at >= self.stop:
                break
        if empty:
            raise DataError(f"{names(self.paths)} in {self.paths[0].parent}: no text, expected at least 1 character")

    def _whole(self) -> Iterator[tuple[int, str]]:
        last = "\n"
        for file, path in enumerate(self.paths):
            if last != "\n":  # or the last word of a file and the first of the next would become one
                yield file - 1, "\n"
            last = "\n"
            for chunk in read_chunks(path, errors=self.errors):
                yield file, chunk
                last = chunk[-1]


@dataclass(frozen=True, slots=True, kw_only=True)
class TableTexts:
    """The texts in a column of a table from row `start` to `stop`, each with a final line end. Raises DataError."""

    path: Path
    column: str
    start: int = 0
    stop: int | None = None
    errors: Errors = "strict"

    def __iter__(self) -> Iterator[str]:
        empty = True
        for (text,) in islice(read_rows(self.path, self.column, errors=self.errors), self.start, self.stop):
            yield f"{text}\n"
            empty = False
        if empty:
            raise DataError(f"{self.path}: no rows, expected at least 1")


@dataclass(frozen=True, slots=True, kw_only=True)
class ParallelText:
    """Pairs of sentences by split; `name` identifies the set in error messages."""

    name: str
    source: str
    target: str
    splits: Mapping[str, Iterable[Pair]]

    def pairs(self, split: str) -> Iterator[Pair]:
        """The pairs of a split, in order."""
        return iter(_chosen(self.name, self.splits, split))

    def count(self, split: str) -> int:
        """The number of pairs of a split, by reading it."""
        return sum(1 for _ in self.pairs(split))

    def left_out(self) -> int:
        """The rows that were left out of the tables, by reading them."""
        tables = {each.path: each for each in self.splits.values() if isinstance(each, TableRows)}
        return sum(each.left_out() for each in tables.values())

    def fingerprint(self, split: str) -> list[str]:
        """A digest of the content of a split, independent of files and formats."""
        return [_digest(f"{text}\0" for pair in self.pairs(split) for text in pair)]  # texts do not contain NUL


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainText:
    """Plain text by split; `name` identifies the set in error messages."""

    name: str
    splits: Mapping[str, Iterable[str]]

    def chunks(self, split: str) -> Iterator[str]:
        """The text of a split in chunks of 1 to 2 MiB, which end at line ends if lines are shorter."""
        return in_lines(_chosen(self.name, self.splits, split))

    def documents(self, split: str) -> Iterator[Iterator[str]]:
        """The text by document (a file, or a section of a built-in set); read each to its end before the next."""
        held = _chosen(self.name, self.splits, split)
        pieces = held.pieces() if isinstance(held, TextFiles) else enumerate(held)
        return (in_lines(chunk for _, chunk in group) for _, group in groupby(pieces, key=itemgetter(0)))

    def count(self, split: str) -> int:
        """The number of characters of a split, by reading it."""
        return sum(map(len, self.chunks(split)))

    def fingerprint(self, split: str) -> list[str]:
        """A digest of the content of a split, independent of files and formats."""
        return [_digest(self.chunks(split))]


def load_parallel(
    spec: str | Path,
    source: str,
    target: str,
    *,
    errors: Errors = "strict",
    numbers: bool = False,
    skip_bad: bool = False,
    what: str = "parallel text",
) -> ParallelText:
    """Pairs from a folder (`train.en`, `train.de`, `val.en` …, or `train.tsv` …) or from one table.

    Without a val split, the last tenth of the training pairs is used. `what` says in errors what the pairs are;
    `numbers` allows whole numbers in a table; `skip_bad` leaves out its rows with more or fewer cells than the first.
    """
    path = Path(spec).expanduser()
    if source == target:
        raise DataError(f"{path}: source and target are both {source!r}, expected two")
    table = partial(TableRows, source=source, target=target, errors=errors, numbers=numbers, skip_bad=skip_bad)
    if path.is_dir():
        files: dict[str, PairFiles | TableRows] = _pair_files(path, source, target, errors) or {
            split: table(path=file) for split, file in table_splits(path).items()
        }
        expect_train(path, tuple(files), source, target)
        splits = files if "val" in files else {**files, **_divided(files["train"])}
    elif not path.exists():
        raise DataError(f"{path}: no such file or folder")
    elif suffix(path):
        splits = _divided(table(path=path))
    else:
        step = advice(path)
        forms = f"a folder or a file that ends with {', '.join(SUFFIXES)}"
        raise DataError(f"{path}: expected {what}: {forms}{step and '; '}{step}")
    return ParallelText(name=str(path), source=source, target=target, splits=splits)


def load_text(spec: str | Path, *, errors: Errors = "strict", column: str = "text") -> PlainText:
    """Plain text from a file, a folder of .txt[.gz], or a column of a table or of a folder of tables.

    Without a val split, the last tenth is used: of the text, or of a table's rows.
    """
    path = Path(spec).expanduser()
    if path.is_dir():
        return _text_folder(path, errors, column)
    if suffix(path):
        return PlainText(name=str(path), splits=_last_rows(TableTexts(path=path, column=column, errors=errors)))
    if without_gz(path).lower().endswith(".json"):
        raise DataError(f"{path}: not a text; {advice(path)}")
    return PlainText(name=str(path), splits=_last_tenth(TextFiles(paths=(path,), errors=errors)))


def _text_folder(folder: Path, errors: Errors, column: str) -> PlainText:
    """The texts of a folder: by split where the names say so, otherwise one after another."""
    files = [file for file in listing(folder) if without_gz(file).endswith(".txt")]
    if not files:
        return _table_folder(folder, errors, column)
    by_name = files_by_stem(folder, files, ".txt")
    if "train" not in by_name:
        return PlainText(name=str(folder), splits=_last_tenth(TextFiles(paths=tuple(files), errors=errors)))
    texts = {split: TextFiles(paths=(file,), errors=errors) for split, file in by_name.items()}
    splits = texts if "val" in texts else {**texts, **_last_tenth(texts["train"])}
    return PlainText(name=str(folder), splits=splits)


def _table_folder(folder: Path, errors: Errors, column: str) -> PlainText:
    tables = table_splits(folder)
    if is_store(folder):
        raise DataError(f"{folder}: a prepared store, which only language models are trained on; pass the text itself")
    if not tables:
        hint = "--source and --target read parallel text"
        raise DataError(f"{folder}: no .txt or .txt.gz file; there are: {contents(folder)}; {hint}")
    if "train" not in tables:
        raise DataError(f"{folder}: no train split; splits: {listed(tuple(tables))}")
    texts = {split: TableTexts(path=file, column=column, errors=errors) for split, file in tables.items()}
    return PlainText(name=str(folder), splits=texts if "val" in texts else {**texts, **_last_rows(texts["train"])})


def _pair_files(folder: Path, source: str, target: str, errors: Errors) -> dict[str, PairFiles | TableRows]:
    """The splits that have both sides. Raises DataError if a side of train or val is missing."""
    return {
        split: PairFiles(source=first, target=second, errors=errors)
        for split, (first, second) in aligned_files(folder, source, target).items()
    }


def table_splits(folder: Path) -> dict[str, Path]:
    """The tables of a folder by split. Raises DataError for a split in two files."""
    files = [path for path in listing(folder) if suffix(path)]
    by_name = {split: path for each in SUFFIXES for split, path in files_by_stem(folder, files, each).items()}
    if len(by_name) != len(files):
        raise DataError(f"{folder}: a split in more than one file: {names(files)}")
    return by_name


def _divided(pairs: PairFiles | TableRows) -> dict[str, PairFiles | TableRows]:
    """Split pairs into train and val, the last tenth."""
    count = sum(1 for _ in pairs)
    if count < 2:
        raise DataError(f"{pairs.name}: {count} pair, expected at least 2: the last tenth is val")
    cut = count - max(1, count // 10)
    return {"train": replace(pairs, stop=cut), "val": replace(pairs, start=cut)}


def _last_tenth(files: TextFiles) -> dict[str, TextFiles]:
    """Split a text into train and val, the last tenth of its characters, as nanoGPT does."""
    count = sum(map(len, files))
    if count < 2:
        raise DataError(f"{names(files.paths)}: {count} character, expected at least 2: the last tenth is val")
    cut = int(0.9 * count)
    return {"train": replace(files, stop=cut), "val": replace(files, start=cut)}


def _last_rows(texts: TableTexts) -> dict[str, TableTexts]:
    """Split the texts of a table into train and val, the last tenth of its rows."""
    count = sum(1 for _ in texts)
    if count < 2:
        raise DataError(f"{texts.path}: {count} row, expected at least 2: the last tenth is val")
    cut = count - max(1, count // 10)
    return {"train": replace(texts, stop=cut), "val": replace(texts, start=cut)}


def with_whole(text: PlainText) -> PlainText:
    """The text with a split `test` that has all of it, if it has no splits of its own."""
    if set(text.splits) != {"train", "val"}:
        return text
    train, val = text.splits["train"], text.splits["val"]
    if isinstance(train, TextFiles | TableTexts) and isinstance(val, TextFiles | TableTexts) and val.start:
        return replace(text, splits={**text.splits, "test": replace(train, stop=None)})
    return text


def _chosen(name: str, splits: Mapping[str, S], split: str) -> S:
    if split not in splits:
        raise DataError(f"{name}: no split {shown(split)}; there are: {listed(tuple(splits))}")
    return splits[split]


def _digest(parts: Iterable[str]) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part.encode())
    return digest.hexdigest()
