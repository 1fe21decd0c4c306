"""Built-in data sets: generated, or part of headway or Python. A built-in name wins over a path of that name."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable
from functools import cache
from hashlib import sha256
from itertools import islice
from pathlib import Path

from headway.data import captions, images
from headway.data import text_files as reading
from headway.data.captions import Captions, load_shape_captions
from headway.data.coco import load_coco
from headway.data.files import Errors
from headway.data.image_decoding import Pixels, decode_images
from headway.data.image_files import find_splits
from headway.data.images import ImageReading, Images, Progress
from headway.data.poses import Poses, load_figures
from headway.data.spectrograms import Spectrogram
from headway.data.synthetic.phrases import phrases as read_phrases
from headway.data.synthetic.sequences import (
    addition,
    copy,
    copy_digits,
    copy_long,
    reverse,
    reverse_digits,
    reverse_long,
)
from headway.data.synthetic.shapes import load_shapes, scenes
from headway.data.synthetic.tone_images import load_tones
from headway.data.tables import Pair
from headway.data.text_files import ParallelText, PlainText
from headway.errors import DataError

DECK_SENTENCES = (
    "I think therefore I am",
    "I like machine learning",
    "I am not just a neural network",
    "John likes movies",
    "Mary likes movies",
    "I like dogs",
)


def load_parallel(spec: str | Path, source: str, target: str, *, errors: Errors = "strict") -> ParallelText:
    """Parallel text by built-in name or path. Raises DataError for what is neither, or not parallel."""
    if str(spec) in _built_in() and str(spec) not in PARALLEL:
        raise DataError(f"{spec} is {_what(str(spec))}, expected parallel text: {', '.join(PARALLEL)} or a path")
    if str(spec) in PARALLEL:
        return _directed(PARALLEL[str(spec)](), source, target)
    _must_exist(spec)
    return reading.load_parallel(spec, source, target, errors=errors)


def load_labelled(spec: str | Path, *, errors: Errors = "strict") -> ParallelText:
    """Classes and texts by path: a table with the columns `label` and `text`, or a folder of such, a split each."""
    if str(spec) in _built_in():
        raise DataError(f"{spec} is {_what(str(spec))}, expected texts with classes: {', '.join(LABELLED)} or a path")
    _must_exist(spec)
    return reading.load_parallel(spec, "label", "text", errors=errors)


def load_text(spec: str | Path, *, errors: Errors = "strict") -> PlainText:
    """Plain text by built-in name or path. Raises DataError for what is neither, or not plain text."""
    if str(spec) in _built_in() and str(spec) not in TEXTS:
        raise DataError(f"{spec} is {_what(str(spec))}, expected plain text: {', '.join(TEXTS)} or a path")
    if str(spec) in TEXTS:
        return TEXTS[str(spec)]()
    _must_exist(spec)
    return reading.load_text(spec, errors=errors)


def load_images(spec: str | Path, reading: ImageReading, progress: Progress) -> Images:
    """Images, or sounds as such, by built-in name or path. Raises DataError for what is neither, or something else."""
    wanted = [*(IMAGES if reading.sound is None else SOUNDS)]
    if str(spec) in _built_in() and str(spec) not in wanted:
        kind = "images" if reading.sound is None else "sounds"
        raise DataError(f"{spec} is {_what(str(spec))}, expected {kind}: {', '.join(wanted)} or a path")
    if reading.sound is not None and str(spec) in SOUNDS:
        return SOUNDS[str(spec)](reading.size, reading.sound, reading.cache, progress)
    if str(spec) in IMAGES:
        return IMAGES[str(spec)](reading.size, reading.cache, progress)
    _must_exist(spec)
    return images.load_images(Path(spec).expanduser(), reading, progress)


def load_captions(spec: str | Path, reading: ImageReading, progress: Progress) -> Captions:
    """Images with captions by built-in name or path. Raises DataError for what is neither, or has no captions."""
    if str(spec) in {**PARALLEL, **TEXTS}:
        raise DataError(f"{spec} is text, expected images with captions: {', '.join(CAPTIONS)} or a path")
    if str(spec) in CAPTIONS:
        return CAPTIONS[str(spec)](reading.size, reading.cache, progress)
    _must_exist(spec)
    return captions.load_captions(Path(spec).expanduser(), reading, progress)


def load_poses(spec: str | Path, size: int, cache: Path, progress: Progress) -> Poses:
    """People with keypoints by built-in name or path. Raises DataError for what is neither, or something else."""
    if str(spec) in POSES:
        return POSES[str(spec)](size, cache, progress)
    if str(spec) in _built_in():
        raise DataError(f"{spec} is {_what(str(spec))}, expected people with keypoints: {', '.join(POSES)} or a path")
    _must_exist(spec)
    return load_coco(Path(spec).expanduser(), size, progress)


def sample_images(spec: str | Path, classes: tuple[str, ...], *, count: int, size: int) -> list[Pixels]:
    """Some images (3, H, W) of a set, held out ones where it has such, without going through all of it.

    Raises DataError for what is no images, or an image that cannot be read.
    """
    if str(spec) == "shapes":
        return list(scenes(count, size=size, seed=1).pixels)
    _must_exist(spec)
    splits, _ = find_splits(Path(spec).expanduser(), classes)
    chosen = next(splits[name] for name in ("val", "test", "train") if name in splits)
    return decode_images(islice(chosen, count), size)


@cache
def phrases() -> ParallelText:
    """English and French from a grammar, with a split `unseen` of words never seen together."""
    return ParallelText(name="phrases", source="en", target="fr", splits=read_phrases())


def deck_sentences() -> PlainText:
    """The three sentences of deck 002 and the three of deck 001, a line each; so few that val is train again."""
    text = ("".join(f"{sentence}\n" for sentence in DECK_SENTENCES),)
    return PlainText(name="deck-sentences", splits={"train": text, "val": text})


@cache
def pydocs() -> PlainText:
    """The language reference that ships inside Python, some 450,000 characters, in sections of a page or so.

    Split by section, about 8:1:1 in characters; sections that repeat each other's paragraphs stay together, so that
    nothing held out was seen in training. The text is that of the Python at hand.
    """
    try:
        from pydoc_data.topics import topics
    except ImportError:
        raise DataError("pydocs: this Python comes without pydoc_data, where its language reference is kept") from None
    sections = {f"{name} {n:03}": text for name in topics for n, text in enumerate(_sections(topics[name]))}
    lacking = {name: share * sum(map(len, sections.values())) for name, share in SHARES.items()}
    chosen: dict[str, list[str]] = {name: [] for name in SHARES}

    def size(group: list[str]) -> int:
        return sum(len(sections[name]) for name in group)

    # Large groups first, while there is room for them anywhere; the others in an order that means nothing.
    for group in sorted(
        _related(sections), key=lambda group: (-(size(group) // 10_000), sha256(group[0].encode()).digest())
    ):
        split = max(lacking, key=lambda name: lacking[name] / SHARES[name])
        chosen[split] += group
        lacking[split] -= size(group)
    splits = {split: tuple(f"{sections[name]}\n\n" for name in sorted(group)) for split, group in chosen.items()}
    return PlainText(name="pydocs", splits=splits)


SECTION = 2_000  # characters, the paragraph that reaches it included
SHARES = {"train": 0.8, "val": 0.1, "test": 0.1}
PARALLEL: dict[str, Callable[[], ParallelText]] = {
    "phrases": phrases,
    "reverse": reverse,
    "copy": copy,
    "copy-digits": copy_digits,
    "reverse-digits": reverse_digits,
    "copy-long": copy_long,
    "reverse-long": reverse_long,
    "addition": addition,
}
IMAGES: dict[str, Callable[[int, Path, Progress], Images]] = {"shapes": load_shapes}
CAPTIONS: dict[str, Callable[[int, Path, Progress], Captions]] = {"shapes": load_shape_captions}
SOUNDS: dict[str, Callable[[int, Spectrogram, Path, Progress], Images]] = {"tones": load_tones}
POSES: dict[str, Callable[[int, Path, Progress], Poses]] = {"figures": load_figures}
LABELLED = ("needle",)  # texts with classes, which data.documents makes
TEXTS: dict[str, Callable[[], PlainText]] = {"pydocs": pydocs, "deck-sentences": deck_sentences}


def _sections(text: str) -> list[str]:
    """A text cut between paragraphs into pieces of at least SECTION characters; a short rest joins the last."""
    pieces: list[list[str]] = [[]]
    for paragraph in text.strip("\n").split("\n\n"):
        if sum(map(len, pieces[-1])) >= SECTION:
            pieces.append([])
        pieces[-1].append(paragraph)
    if len(pieces) > 1 and sum(map(len, pieces[-1])) < SECTION // 2:
        rest = pieces.pop()
        pieces[-1] += rest
    return ["\n\n".join(piece) for piece in pieces]


def _related(topics: dict[str, str]) -> list[list[str]]:
    """Groups of texts in which each shares a paragraph of more than a few words with another."""
    group = {name: [name] for name in sorted(topics)}
    first: dict[str, str] = {}
    for name in sorted(topics):
        for paragraph in topics[name].split("\n\n"):
            if len(paragraph.strip()) < 40:
                continue
            other = first.setdefault(paragraph.strip(), name)
            if group[other] is not group[name]:
                group[other] += group[name]
                for member in group[name]:
                    group[member] = group[other]
    return [members for name, members in group.items() if members[0] == name]


def _directed(text: ParallelText, source: str, target: str) -> ParallelText:
    """The set in the direction asked for; sets without languages have one direction, whatever it is called."""
    if text.source == "source" or (source, target) == (text.source, text.target):
        return text
    if (source, target) != (text.target, text.source):
        between = f"{text.source} and {text.target}"
        raise DataError(f"{text.name} is between {between}; got source={source!r}, target={target!r}")
    splits: dict[str, Iterable[Pair]] = {
        split: tuple((right, left) for left, right in pairs) for split, pairs in text.splits.items()
    }
    return ParallelText(name=text.name, source=source, target=target, splits=splits)


def _built_in() -> list[str]:
    return [*PARALLEL, *TEXTS, *IMAGES, *SOUNDS, *POSES, *LABELLED]


def _what(name: str) -> str:
    kinds = {"parallel text": [*PARALLEL], "plain text": [*TEXTS], "images": [*IMAGES], "sounds": [*SOUNDS]}
    kinds["texts with classes"] = [*LABELLED]
    return next((kind for kind, named in kinds.items() if name in named), "people with keypoints")


def _must_exist(spec: str | Path) -> None:
    known = _built_in()
    if not str(spec):
        raise DataError(f"no data named, expected a path or a built-in set: {', '.join(known)}")
    try:
        exists = Path(spec).expanduser().exists()
    except (OSError, RuntimeError):  # a name too long to be one, or the home of nobody
        exists = False
    if not exists:
        near = difflib.get_close_matches(str(spec), known, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]}? " if near else ""
        raise DataError(f"{str(spec)!r}: no such file, folder or built-in set; {hint}built-in: {', '.join(known)}")
