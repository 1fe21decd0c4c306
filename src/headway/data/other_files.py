"""Files in formats that headway does not read: what they are by their ending, and how to make data of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from headway.counts import counted
from headway.data import image_decoding

MOST_FILES = 100_000  # entries of a folder that are looked at
UNREAD_IMAGES = (".heic", ".heif", ".avif", ".jxl", ".dng", ".cr2", ".nef", ".psd")
ADVICE = {
    (".xlsx", ".xls", ".ods", ".numbers"): "a spreadsheet: save it as CSV in UTF-8",
    (".pdf", ".docx", ".doc", ".odt", ".rtf", ".epub"): "a document: save it as plain text (.txt) in UTF-8",
    (".zip", ".tar", ".tgz", ".bz2", ".xz", ".7z", ".rar"): "an archive: unpack it and pass the folder",
    UNREAD_IMAGES: "an image in a format that is not read: convert it to JPEG or PNG",
    (".mp3", ".m4a", ".flac", ".ogg", ".opus", ".aac"): "compressed sound: convert it to WAV",
    (".mp4", ".mov", ".avi", ".mkv", ".webm"): "a video: save its frames as images or its sound as WAV",
    (".json",): "a document: a text ends with .txt; a table has one object a line and ends with .jsonl. Of a list of "
    """objects, `python3 -c "import json, sys; [print(json.dumps(row)) for row in json.load(sys.stdin)]" < FILE.json """
    "> FILE.jsonl` makes one",
    (".gguf", ".safetensors", ".onnx", ".pt", ".pth"): "a model, not data: `headway import` reads GGUF files and "
    "model folders of Hugging Face",
}
_ADVICE = {ending: advice for endings, advice in ADVICE.items() for ending in endings}


def is_other(path: Path) -> bool:
    """Whether a file has the ending of a format that is not read."""
    return path.suffix.lower() in _ADVICE


def advice(path: Path) -> str:
    """What to do with a file or folder that is not read, by the commonest ending; empty if there is no advice."""
    if not path.is_dir():
        step = f"{path.suffix.lower()} is {_ADVICE[path.suffix.lower()]}" if is_other(path) else ""
        return step.replace("FILE.", f"{path.with_suffix('')}.")
    endings = Counter(each.suffix.lower() for each in _files(path))
    if endings and max(endings, key=endings.__getitem__) in image_decoding.ENDINGS:
        pictures = sum(endings[each] for each in image_decoding.ENDINGS)
        return (
            f"{counted(pictures, 'image')} without classes: put them into a folder for each class "
            f"({path.name}/cats, {path.name}/dogs), or write a table with their captions beside them (captions.tsv)"
        )
    known = Counter({each: count for each, count in endings.items() if each in _ADVICE})
    return "".join(f"{each} is {_ADVICE[each]}" for each, _ in known.most_common(1))


def unread_images(folder: Path) -> str:
    """How many images below a folder have a format that is not read, and which; empty if there is none."""
    found = Counter(each.suffix.lower() for each in _files(folder) if each.suffix.lower() in UNREAD_IMAGES)
    if not found:
        return ""
    return f"{counted(found.total(), 'image')} in a format that is not read ({', '.join(sorted(found))})"


def _files(folder: Path) -> Iterator[Path]:
    """The files below a folder without hidden ones, among its first entries."""
    try:
        yield from (
            each for each in islice(folder.rglob("*"), MOST_FILES) if not each.name.startswith(".") and each.is_file()
        )
    except OSError:  # what cannot be read is reported where it is read
        return
