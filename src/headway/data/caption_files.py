"""Finding caption files: text or a table beside a folder of images, as in Flickr8k, or COCO's JSON."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headway.counts import counted
from headway.data.files import inside, listing, names, read_lines
from headway.data.split_files import ALIASES, SPLITS
from headway.documents import read_json
from headway.errors import DataError, one_line, shown

ENDINGS = (".txt", ".tsv", ".csv", ".json")
FOLDERS = (
    "images",
    "Images",
    "Flicker8k_Dataset",
    "Flickr8k_Dataset",
)  # possible names of the image folder beside the captions
EXPECTED = "captions*.txt, .tsv, .csv or .json, or *.token.txt"


@dataclass(frozen=True, slots=True)
class CaptionedFile:
    """An image file with its captions; `where` names the first of them in error messages."""

    where: str
    file: Path
    captions: tuple[str, ...]


def find_captions(path: Path) -> dict[str, list[CaptionedFile]]:
    """The images of each split with their captions, in file order. Raises DataError naming the file and line.

    A file whose name has train, val or test in it holds that split, any other the training set.
    """
    files = [path] if path.is_file() else caption_files(path)
    if not files:
        raise DataError(f"{path}: no captions ({EXPECTED}); there are: {names(listing(path))}")
    found: dict[str, list[CaptionedFile]] = {}
    for file in files:
        split = _split_of(file)
        if split in found:
            raise DataError(f"{path}: more than one file with captions of {split}: {names(files)}")
        found[split] = _read_captions(file, split)
    return found


def caption_files(folder: Path) -> list[Path]:
    """The files of captions in a folder, or in its folder `annotations`."""
    places = [folder, *(each for each in (folder / "annotations",) if each.is_dir())]
    every = [file for place in places for file in listing(place) if file.suffix.lower() in ENDINGS]
    return [file for file in every if file.name.startswith("captions") or file.name.endswith(".token.txt")]


def _split_of(file: Path) -> str:
    parts = "".join(letter if letter.isalpha() else " " for letter in file.stem.lower()).split()
    named = (ALIASES.get(part, part) for part in parts)
    return next((part for part in named if part in SPLITS), "train")


def _read_captions(file: Path, split: str) -> list[CaptionedFile]:
    pairs = _coco(file) if file.suffix.lower() == ".json" else _lines(file)
    root, places = _places(file, split)
    first: dict[str, str] = {}
    captions: dict[str, list[str]] = {}
    for where, name, caption in pairs:
        caption = " ".join(caption.split())
        if not name or not caption:
            raise DataError(f"{where}: {'no image named' if not name else 'an empty caption'}, expected both")
        first.setdefault(name, where)
        captions.setdefault(name, []).append(caption)
    if not captions:
        raise DataError(f"{file}: no captions, expected at least 1")
    return [
        CaptionedFile(first[name], _found(root, places, name, first[name]), tuple(texts))
        for name, texts in captions.items()
    ]


def _places(file: Path, split: str) -> tuple[Path, list[Path]]:
    """The data folder, and folders in it that may contain the images: beside the captions, or for COCO beside the
    annotations folder.
    """
    roots = [file.parent, file.parent.parent] if file.parent.name == "annotations" else [file.parent]
    coco = file.stem.removeprefix("captions_")  # captions_train2017.json describes train2017/
    return roots[-1], [root / name for root in roots for name in ("", *FOLDERS, split, coco)]


def _found(root: Path, places: list[Path], name: str, where: str) -> Path:
    """The first existing file of this name, else the first candidate. Raises DataError for one outside the folder."""
    first = inside(root, name, where, below=places[0])
    place = next((place for place in places if (place / name).is_file()), None)
    return first if place is None else inside(root, name, where, below=place)


def _lines(file: Path) -> Iterator[tuple[str, str, str]]:
    """`name.jpg#0<tab>caption` or `name.jpg<tab>caption`, else CSV with a header `image,caption`."""
    lines = list(read_lines(file))
    if any("\t" in line for line in lines[:1]):
        for number, line in enumerate(lines, 1):
            name, tab, caption = line.partition("\t")
            if line.strip() and not tab:
                raise DataError(f"{file}: line {number}: no tab, expected IMAGE<tab>CAPTION")
            if line.strip() and (number > 1 or name.strip() != "image"):
                yield f"{file}: line {number}", name.rpartition("#")[0] or name, caption
        return
    yield from _table(file, lines)


def _table(file: Path, lines: Iterable[str]) -> Iterator[tuple[str, str, str]]:
    rows = csv.reader(lines)
    try:
        head = [word.strip() for word in next(rows, [])]
        if "image" not in head or "caption" not in head:
            raise DataError(f"{file}: line 1 has no columns image,caption, and no tab as in IMAGE<tab>CAPTION")
        image, caption = head.index("image"), head.index("caption")
        for row in filter(None, rows):
            where = f"{file}: line {rows.line_num}"
            if len(row) != len(head):
                raise DataError(f"{where}: {counted(len(row), 'column')}, expected {len(head)}, as in line 1")
            yield where, row[image].strip(), row[caption]
    except csv.Error as error:
        raise DataError(f"{file}: line {rows.line_num}: not CSV ({one_line(error)})") from None


def _coco(file: Path) -> Iterator[tuple[str, str, str]]:
    tree = read_json(file, most="document-bytes")
    files = {_field(file, "images", n, each, "id"): _field(file, "images", n, each, "file_name") for n, each in
             enumerate(_list(file, tree, "images"))}  # fmt: skip
    for number, each in enumerate(_list(file, tree, "annotations")):
        image = _field(file, "annotations", number, each, "image_id")
        where = f"{file}: annotations[{number}]"
        if image not in files:
            raise DataError(f"{where}: image_id {shown(image)}, which images does not have")
        yield where, str(files[image]), str(_field(file, "annotations", number, each, "caption"))


def _list(file: Path, tree: Any, key: str) -> list[Any]:
    value = tree.get(key) if isinstance(tree, dict) else None
    if not isinstance(value, list):
        raise DataError(f"{file}: no list {key!r}, expected COCO's images and annotations")
    return value


def _field(file: Path, key: str, number: int, entry: Any, name: str) -> Any:
    if not isinstance(entry, dict) or not isinstance(entry.get(name), str | int):
        raise DataError(f"{file}: {key}[{number}] has no {name}")
    return entry[name]
