"""What goes into a prepared store: files of text and tables, cut into units of work by their bytes alone.

The cut depends on the names and sizes of the files and on the size of a part, never on the number of workers. A file of
lines (text, JSONL) is cut at the first line end behind each multiple of the size of a part, so that several workers
read one file. What cannot be read from its middle (compressed files, CSV, TSV, parquet) is one unit, however large.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from headway.data.files import listed, listing, names, without_gz
from headway.data.tables import suffix
from headway.errors import DataError
from headway.limits import limit

SPLIT_NAMES = {"train": "train", "val": "val", "validation": "val", "valid": "val", "dev": "val", "test": "test"}
STREAM_RATIO = 8  # bytes that a byte of a compressed or columnar file may stand for, for an estimate


@dataclass(frozen=True, slots=True)
class FileSlice:
    """Some of a file: bytes of a file of lines, bytes of the text of any other, in both cases at a line end."""

    path: Path
    begin: int = 0
    end: int | None = None


@dataclass(frozen=True, slots=True)
class InputUnit:
    """What one worker reads at a time."""

    split: str
    slices: tuple[FileSlice, ...]

    @property
    def streamed(self) -> bool:
        """Whether the size of its text is not known before it is read."""
        return not all(in_file_bytes(each.path) for each in self.slices)

    @property
    def bytes(self) -> int:
        """Its bytes on disk; of a file that is read as a whole by several units, only the last of them counts."""
        return sum(_size(each) for each in self.slices)


@dataclass(frozen=True, slots=True)
class InputPlan:
    """All units in order, the files they read, and names of files in the folder that are left out."""

    units: tuple[InputUnit, ...]
    files: tuple[Path, ...]
    left_out: tuple[str, ...] = ()


def plan_input(spec: Path, *, part_bytes: int, val_bytes: int) -> InputPlan:
    """The units of a file or folder. Without a val split a tenth is held out, at most `val_bytes`. Raises DataError."""
    by_split, left_out = _files(spec)
    if "train" not in by_split:
        raise DataError(f"{spec}: no train split; splits: {listed(tuple(by_split))}")
    slices = {split: [FileSlice(path) for path in files] for split, files in by_split.items()}
    if "val" not in slices:
        slices = {**_held_out(slices["train"], val_bytes), **{key: slices[key] for key in slices if key != "train"}}
    units = (unit for split, some in slices.items() for unit in _units(split, some, part_bytes))
    return InputPlan(tuple(units), tuple(path for files in by_split.values() for path in files), left_out)


def _files(spec: Path) -> tuple[dict[str, list[Path]], tuple[str, ...]]:
    """The files by split, and the names of those that are left out."""
    if not spec.is_dir():
        if not spec.exists():
            raise DataError(f"{spec}: no such file or folder")
        if not spec.is_file():
            raise DataError(f"{spec}: not a regular file; data is read more than once, which a pipe does not allow")
        return {"train": [spec]}, ()
    files = listing(spec)
    texts = [path for path in files if without_gz(path).lower().endswith(".txt")]
    tables = [path for path in files if suffix(path)]
    if texts and tables:
        raise DataError(
            f"{spec}: both texts ({names(texts, most=2)}) and tables ({names(tables, most=2)}), expected one"
        )
    found = texts or tables
    if not found:
        raise DataError(
            f"{spec}: no .txt, .jsonl, .parquet, .tsv or .csv file, plain or .gz; there are: {names(files)}"
        )
    left_out = tuple(path.name for path in files if path not in found)
    named = {path: _split_of(path) for path in found}
    if "train" not in named.values():
        return {"train": found}, left_out
    by_split: dict[str, list[Path]] = {}
    for path, split in named.items():
        by_split.setdefault(split or without_gz(path).partition(".")[0], []).append(path)
    known = ("train", "val", "test")
    ordered = [*(name for name in known if name in by_split), *sorted(by_split.keys() - set(known))]
    return {split: by_split[split] for split in ordered}, left_out


def _split_of(path: Path) -> str:
    """The split that a file name begins with, as in train.txt and train-00000-of-00008.parquet; "" for none."""
    start = re.match(r"[a-z]+(?=[-_.])", path.name.lower())
    return SPLIT_NAMES.get(start[0], "") if start else ""


def in_file_bytes(path: Path) -> bool:
    """Whether a file can be read from its middle: one of lines that is not compressed."""
    return path.suffix != ".gz" and suffix(path) in ("", ".jsonl")


def _size(given: FileSlice) -> int:
    """Bytes on disk."""
    if not in_file_bytes(given.path):
        return given.path.stat().st_size if given.end is None else 0
    return (given.path.stat().st_size if given.end is None else given.end) - given.begin


# --- cutting -------------------------------------------------------------------------------------------------------


def _units(split: str, slices: Iterable[FileSlice], part_bytes: int) -> Iterator[InputUnit]:
    """Large files of lines in pieces of the size of a part, small files together up to that size."""
    held: list[FileSlice] = []
    size = 0
    for each in slices:
        cuttable = in_file_bytes(each.path)
        weight = _size(each) * (1 if cuttable else STREAM_RATIO)
        if held and weight + size > part_bytes:
            yield InputUnit(split, tuple(held))
            held, size = [], 0
        if cuttable and weight > part_bytes:
            yield from (InputUnit(split, (piece,)) for piece in _pieces(each, part_bytes))
            continue
        held.append(each)
        size += weight
    if held:
        yield InputUnit(split, tuple(held))


def _pieces(whole: FileSlice, part_bytes: int) -> Iterator[FileSlice]:
    """A large slice cut at line ends near each multiple of the size of a part."""
    begin = whole.begin
    end = whole.path.stat().st_size if whole.end is None else whole.end
    for at in range(whole.begin + part_bytes, end, part_bytes):
        cut = min(next_line(whole.path, at), end)
        if begin < cut < end:
            yield FileSlice(whole.path, begin, cut)
            begin = cut
    yield FileSlice(whole.path, begin, end)


def next_line(path: Path, at: int) -> int:
    """Where the first line that begins at this byte or behind it begins; the size of the file if there is none.

    Within a line of text longer than the limit `line`, the beginning of a character.
    """
    with path.open("rb") as file:
        file.seek(at - 1)
        done = at
        while window := file.read(limit("line")):
            end = window.find(b"\n")
            if end >= 0:
                return done + end
            if len(window) == limit("line") and not suffix(path):
                return _next_character(path, at)
            done += len(window)
    return done - 1


def _next_character(path: Path, at: int) -> int:
    """The first byte from here on with which a character of UTF-8 begins."""
    with path.open("rb") as file:
        file.seek(at)
        return at + next((n for n, byte in enumerate(file.read(4)) if byte & 0xC0 != 0x80), 0)


def _last_line(path: Path, before: int) -> int:
    """Where the last line that begins before this byte begins; 0 if there is one line only."""
    at = before
    while at > 0:
        at = max(at - (1 << 16), 0)
        with path.open("rb") as file:
            file.seek(at)
            found = file.read(before - 1 - at).rfind(b"\n")
        if found >= 0:
            return at + found + 1
    return 0


def _held_out(slices: list[FileSlice], val_bytes: int) -> dict[str, list[FileSlice]]:
    """Train and val, the last tenth at a line end; of a file that cannot be read from its middle, its first rows."""
    sizes = [_size(each) for each in slices]
    held = min(max(sum(sizes) // 10, 1), val_bytes)
    last = slices[-1]
    if sum(sizes) < 2:
        raise DataError(f"{last.path}: {sum(sizes)} bytes, expected at least 2 lines: the last tenth is val")
    if not in_file_bytes(last.path):
        own = max(min(held, sizes[-1] // 10), 1)
        return {"train": [*slices[:-1], replace(last, begin=own)], "val": [replace(last, end=own)]}
    number, offset = 0, sum(sizes) - held
    while number + 1 < len(slices) and offset >= sizes[number]:
        offset -= sizes[number]
        number += 1
    path, size = slices[number].path, sizes[number]
    if not in_file_bytes(path):
        number, cut = number + 1, 0
    else:
        cut = next_line(path, offset) if offset else 0
        if cut >= size and number + 1 < len(slices):
            number, cut = number + 1, 0
        elif cut >= size:
            cut = _last_line(path, size)
    if number == 0 and cut == 0 and len(slices) > 1:
        number = 1
    if number == 0 and cut == 0 and not suffix(path):  # a single line is divided at a character
        cut = _next_character(path, size - held)
    if number == 0 and cut == 0:
        raise DataError(f"{path}: one line, expected at least 2: the last tenth is val")
    path = slices[number].path
    before = [FileSlice(path, 0, cut)] if cut else []
    return {"train": [*slices[:number], *before], "val": [FileSlice(path, cut), *slices[number + 1 :]]}


def inputs_of(plan: InputPlan) -> Mapping[str, list[int]]:
    """The size and time of each file, to notice one that changes between two sittings."""
    found = {}
    for path in plan.files:
        status = path.stat()
        found[str(path)] = [status.st_size, status.st_mtime_ns]
    return found
