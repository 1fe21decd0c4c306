"""The registry of data sets that go by a name: generated, or part of headway, Python or an installed package.

A package adds one through an entry point of the group `headway.datasets`, whose object is a `Dataset` or a function
without arguments that returns one. A name means the built-in set, else a path that exists, else a package's set.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args

from headway.config import loaded, plugins
from headway.data import boxes, captions, images, speech, text_files
from headway.data.boxes import BoxImages, BoxReading
from headway.data.caption_files import find_captions
from headway.data.captions import CaptionDataset, load_shape_captions
from headway.data.chats import ChatDataset, load_chat_files
from headway.data.coco import load_coco
from headway.data.coco_boxes import load_coco_boxes
from headway.data.files import Errors, read_bytes
from headway.data.image_decoding import EncodedImage, Pixels, decode_images
from headway.data.image_files import find_splits
from headway.data.images import ImageReading, Images, Progress
from headway.data.log_mel import Frames
from headway.data.mixes import weights_of
from headway.data.poses import Poses, load_figures
from headway.data.python_docs import docstrings, pydocs
from headway.data.speech import SpeechDataset, SpeechReading, load_spoken_digits
from headway.data.synthetic import sequences, shapes
from headway.data.synthetic.arithmetic_chat import arithmetic_chat
from headway.data.synthetic.phrases import phrases as read_phrases
from headway.data.synthetic.tone_images import load_tones
from headway.data.tables import Pair
from headway.data.text_files import ParallelText, PlainText
from headway.data.transcript_files import find_transcripts
from headway.data.vector_files import Columns
from headway.data.vectors import VectorData, load_robots, load_vector_files
from headway.errors import ConfigError, DataError, NoDataSetError
from headway.suggestions import did_you_mean, did_you_mean_path

if TYPE_CHECKING:
    from headway.data.choices import ChoiceSet
    from headway.data.config import DataConfig
    from headway.data.labelled_text import LabelledTexts
    from headway.data.questions import QuestionSet
    from headway.data.tagged_text import TaggedText
    from headway.data.tokenizers import Tokenizer

S = TypeVar("S")
GROUP = "headway.datasets"
Kind = Literal[
    "parallel text",  # load() -> ParallelText
    "plain text",  # load() -> PlainText
    "images",  # load(ImageReading, Progress) -> Images
    "images with captions",  # load(ImageReading, Progress) -> CaptionDataset
    "sounds",  # load(ImageReading, Progress) -> Images, spectrograms as `ImageReading.sound` says
    "sounds with texts",  # load(SpeechReading, Progress) -> SpeechDataset
    "people with keypoints",  # load(size, cache, Progress) -> Poses
    "objects with boxes",  # load(BoxReading, Progress) -> BoxImages
    "texts with classes",  # load(DataConfig, Tokenizer | None, room) -> LabelledTexts
    "sentences with tags",  # load() -> TaggedText
    "questions with answers",  # load() -> QuestionSet
    "multiple-choice questions",  # load() -> ChoiceSet
    "sets of vectors",  # load() -> VectorData
    "conversations",  # load() -> ChatDataset
]
DECK_SENTENCES = (
    "I think therefore I am",
    "I like machine learning",
    "I am not just a neural network",
    "John likes movies",
    "Mary likes movies",
    "I like dogs",
)


@dataclass(frozen=True, slots=True)
class Dataset:
    """A data set by name: what kind of data it is, and the function that loads it (its signature: see `Kind`)."""

    name: str
    kind: Kind
    load: Callable[..., Any]
    sample: Callable[[int, int], list[Pixels]] | None = None  # (count, size): a few held-out images, without loading


def load_parallel(
    spec: str | Path, source: str, target: str, *, errors: Errors = "strict", skip_bad: bool = False
) -> ParallelText:
    """Parallel text by name or path; `skip_bad` leaves out rows that cannot be read.

    Raises DataError for what is neither, or not parallel.
    """
    dataset = find_dataset(spec, "parallel text")
    if dataset is None:
        return text_files.load_parallel(spec, source, target, errors=errors, skip_bad=skip_bad)
    return _directed(dataset.load(), source, target)


def load_text(spec: str | Path, *, errors: Errors = "strict", column: str = "text") -> PlainText:
    """Plain text by name or path, of a table the texts in a column. Raises DataError for what is neither."""
    dataset = find_dataset(spec, "plain text")
    if dataset is None:
        return text_files.load_text(spec, errors=errors, column=column)
    text: PlainText = dataset.load()
    return text


def load_chats(spec: str | Path, *, errors: Errors = "strict") -> ChatDataset:
    """Conversations by name or path. Raises DataError for what is neither."""
    dataset = find_dataset(spec, "conversations")
    if dataset is None:
        return load_chat_files(Path(spec).expanduser(), errors=errors)
    found: ChatDataset = dataset.load()
    return found


def load_images(spec: str | Path, reading: ImageReading, progress: Progress) -> Images:
    """Images, or sounds as spectrograms, by name or path. Raises DataError for what is neither, or of another kind."""
    dataset = find_dataset(spec, "images" if reading.sound is None else "sounds")
    if dataset is None:
        return images.load_images(Path(spec).expanduser(), reading, progress)
    found: Images = dataset.load(reading, progress)
    return found


def load_captions(spec: str | Path, reading: ImageReading, progress: Progress) -> CaptionDataset:
    """Images with captions by name or path. Raises DataError for what is neither, or has no captions."""
    dataset = find_dataset(spec, "images with captions")
    if dataset is None:
        return captions.load_captions(Path(spec).expanduser(), reading, progress)
    found: CaptionDataset = dataset.load(reading, progress)
    return found


def load_speech(spec: str | Path, reading: SpeechReading, progress: Progress) -> SpeechDataset:
    """Sounds with texts by name or path. Raises DataError for what is neither, or has no texts."""
    dataset = find_dataset(spec, "sounds with texts")
    if dataset is None:
        return speech.load_speech(Path(spec).expanduser(), reading, progress)
    found: SpeechDataset = dataset.load(reading, progress)
    return found


def load_poses(spec: str | Path, size: int, cache: Path, progress: Progress) -> Poses:
    """People with keypoints by name or path. Raises DataError for what is neither, or of another kind."""
    dataset = find_dataset(spec, "people with keypoints")
    if dataset is None:
        return load_coco(Path(spec).expanduser(), size, progress)
    found: Poses = dataset.load(size, cache, progress)
    return found


def load_boxes(spec: str | Path, reading: BoxReading, progress: Progress) -> BoxImages:
    """Images of objects with boxes by name or path. Raises DataError for what is neither, or of another kind."""
    dataset = find_dataset(spec, "objects with boxes")
    if dataset is None:
        return load_coco_boxes(Path(spec).expanduser(), reading, progress)
    found: BoxImages = dataset.load(reading, progress)
    return found


def load_vectors(spec: str | Path, columns: Columns, *, errors: Errors = "strict", whole: bool = False) -> VectorData:
    """Sets of vectors by name or path; `whole` holds nothing of a file out. Raises DataError for what is neither."""
    dataset = find_dataset(spec, "sets of vectors")
    if dataset is None:
        return load_vector_files(Path(spec).expanduser(), columns, errors=errors, whole=whole)
    found: VectorData = dataset.load()
    return found


def sample_images(spec: str | Path, classes: tuple[str, ...], *, count: int, size: int) -> list[Pixels]:
    """The first images (3, H, W) of a set, held-out ones if it has any, without reading the rest.

    Raises DataError for what is not images, or an image that cannot be read.
    """
    dataset = find_dataset(spec, "images")
    if dataset is not None:
        return _sampled(dataset, count, size)
    splits, _ = find_splits(Path(spec).expanduser(), classes)
    return decode_images(islice(_held_out(splits), count), size)


def sample_captioned_images(spec: str | Path, *, count: int, size: int) -> list[Pixels]:
    """The first images (3, H, W) of a set with captions, held-out ones if it has any, without reading the rest.

    Raises DataError for what has no captions, or an image that cannot be read.
    """
    dataset = find_dataset(spec, "images with captions")
    if dataset is not None:
        return _sampled(dataset, count, size)
    chosen = _held_out(find_captions(Path(spec).expanduser()))[:count]
    return decode_images((EncodedImage(each.where, 0, read_bytes(each.file)) for each in chosen), size)


def sample_sounds(spec: str | Path, reading: SpeechReading, *, count: int) -> list[Frames]:
    """The frames (T, bands) of the first sounds of a set with texts, held-out ones if it has any.

    Of files only these are read. Raises DataError for what has no texts, or a sound that cannot be read.
    """
    dataset = find_dataset(spec, "sounds with texts")
    if dataset is not None:
        splits = dataset.load(reading, lambda what, done, total: None).splits
        return [_held_out(splits)[n] for n in range(min(count, len(_held_out(splits))))]
    chosen = _held_out(find_transcripts(Path(spec).expanduser(), column=reading.text, errors=reading.errors))[:count]
    return [reading.frames(read_bytes(each.file), str(each.file)) for each in chosen]


def find_dataset(spec: str | Path, kind: Kind) -> Dataset | None:
    """The registered set of this name and kind; None for a path that exists.

    Raises DataError for a set of another kind, or what is neither a name nor a path, and ConfigError for a plugin that
    cannot be loaded.
    """
    name = str(spec)
    entries = [entry for entry in BUILT_IN if entry.name == name]
    if not entries:
        if name and _exists(spec):
            return None
        if weights_of(name):
            raise DataError(f"{spec}: a mix of prepared texts, which only language models are trained on")
        if name not in plugins(GROUP):
            raise _unknown(name)
        entries = [_plugin(name)]
    for entry in entries:
        if entry.kind == kind:
            return entry
    raise DataError(f"{spec} is {entries[0].kind}, expected {kind}: {', '.join(_names(kind))} or a path")


def kinds_of(spec: str | Path) -> tuple[Kind, ...]:
    """The kinds of the registered set of this name; () for a path. Raises DataError for what is neither."""
    name = str(spec)
    if found := tuple(entry.kind for entry in BUILT_IN if entry.name == name):
        return found
    if name and (_exists(spec) or weights_of(name)):
        return ()
    if name not in plugins(GROUP):
        raise _unknown(name)
    return (_plugin(name).kind,)


def _plugin(name: str) -> Dataset:
    """The set that an installed package registered under this name. Raises ConfigError if it is not a Dataset."""
    found = loaded(GROUP, name)
    if callable(found):
        found = found()
    if not isinstance(found, Dataset) or found.kind not in get_args(Kind):
        raise ConfigError(f"plugin {name!r} of group {GROUP}: expected a Dataset, got {type(found).__name__}")
    return found


def _names(kind: Kind) -> list[str]:
    """The names of all sets of a kind; a plugin that cannot be loaded is left out."""
    found = [entry.name for entry in BUILT_IN if entry.kind == kind]
    for name in plugins(GROUP):
        with contextlib.suppress(ConfigError):
            if _plugin(name).kind == kind:
                found.append(name)
    return list(dict.fromkeys(found))


def _exists(spec: str | Path) -> bool:
    try:
        return Path(spec).expanduser().exists()
    except (OSError, RuntimeError, ValueError):  # a name too long, the home of an unknown user, a NUL
        return False


def _unknown(name: str) -> DataError:
    known = list(dict.fromkeys([*(entry.name for entry in BUILT_IN), *plugins(GROUP)]))
    if not name:
        return DataError(f"no data named, expected a path or a built-in set: {', '.join(known)}")
    if "://" in name:
        raise NoDataSetError(f"{name!r}: an address; headway downloads nothing: fetch it and pass the file or folder")
    parts = [part.strip() for part in name.split(",")]
    if len(parts) > 1 and all(map(_exists, parts)):
        raise NoDataSetError(f"{name!r}: {len(parts)} paths, expected one, a file or a folder that holds the files")
    hint = did_you_mean_path(name) or did_you_mean(name, known)
    return NoDataSetError(f"{name!r}: no such file, folder or built-in set; {hint}built-in: {', '.join(known)}")


def _sampled(dataset: Dataset, count: int, size: int) -> list[Pixels]:
    if dataset.sample is None:
        raise DataError(f"{dataset.name} cannot be sampled without loading all of it")
    return dataset.sample(count, size)


def _held_out(splits: Mapping[str, S]) -> S:
    return next(splits[name] for name in ("val", "test", "train") if name in splits)


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


@cache
def phrases() -> ParallelText:
    """English and French from a grammar, with a split `unseen` of words never seen together."""
    return ParallelText(name="phrases", source="en", target="fr", splits=read_phrases())


def deck_sentences() -> PlainText:
    """Six sentences of at most seven words, a line each; so few that val is train again."""
    text = ("".join(f"{sentence}\n" for sentence in DECK_SENTENCES),)
    return PlainText(name="deck-sentences", splits={"train": text, "val": text})


def _shapes(reading: ImageReading, progress: Progress) -> Images:
    return shapes.load_shapes(reading.size, reading.cache, progress)


def _shape_captions(reading: ImageReading, progress: Progress) -> CaptionDataset:
    return load_shape_captions(reading.size, reading.cache, progress)


def _tones(reading: ImageReading, progress: Progress) -> Images:
    assert reading.sound is not None
    return load_tones(reading.size, reading.sound, reading.cache, progress)


def _needle(data: DataConfig, tokenizer: Tokenizer | None, room: int) -> LabelledTexts:
    from headway.data.labelled_text import load_needle  # which reads this registry

    return load_needle(data, tokenizer, room)


def coreference() -> TaggedText:
    """Sentences in which *it* refers to one of two nouns, which is tagged."""
    from headway.data.synthetic.coreference import COUNTS, sentences
    from headway.data.tagged_text import TaggedSentence, TaggedText

    splits = {split: [TaggedSentence(*each) for each in sentences(split)] for split in COUNTS}
    return TaggedText(name="coreference", splits=splits)


def protein() -> TaggedText:
    """Sequences of amino acids, each tagged with its secondary structure."""
    from headway.data.synthetic.protein import COUNTS, ceiling, sequences
    from headway.data.tagged_text import TaggedSentence, TaggedText

    splits = {split: [TaggedSentence(tuple(a), tuple(b)) for a, b in sequences(split)] for split in COUNTS}
    best = {split: ceiling(split) for split in COUNTS if split != "train"}
    return TaggedText(name="protein", splits=splits, ceiling=best)


def relatives() -> QuestionSet:
    """Where a person is, or who is there, with relative clauses in between."""
    from headway.data.questions import QuestionSet
    from headway.data.synthetic.relatives import SPLITS, documents

    return QuestionSet(name="relatives", splits={split: documents(split) for split in SPLITS})


def coreference_choice() -> ChoiceSet:
    """What *it* refers to, among four nouns."""
    from headway.data.choices import ChoiceSet
    from headway.data.synthetic.coreference_choice import SPLITS, documents

    return ChoiceSet(name="coreference-choice", splits={split: documents(split) for split in SPLITS})


BUILT_IN: tuple[Dataset, ...] = (
    Dataset("phrases", "parallel text", phrases),
    Dataset("reverse", "parallel text", sequences.reverse),
    Dataset("copy", "parallel text", sequences.copy),
    Dataset("copy-digits", "parallel text", sequences.copy_digits),
    Dataset("reverse-digits", "parallel text", sequences.reverse_digits),
    Dataset("copy-long", "parallel text", sequences.copy_long),
    Dataset("reverse-long", "parallel text", sequences.reverse_long),
    Dataset("addition", "parallel text", sequences.addition),
    Dataset("pydocs", "plain text", pydocs),
    Dataset("docstrings", "plain text", docstrings),
    Dataset("deck-sentences", "plain text", deck_sentences),
    Dataset("shapes", "images", _shapes, lambda count, size: list(shapes.scenes(count, size=size, seed=1).pixels)),
    Dataset(
        "shapes",
        "images with captions",
        _shape_captions,
        lambda count, size: list(shapes.captions(count, size=size, seed=1)[0]),
    ),
    Dataset("tones", "sounds", _tones),
    Dataset("spoken-digits", "sounds with texts", load_spoken_digits),
    Dataset("figures", "people with keypoints", load_figures),
    Dataset("shapes", "objects with boxes", boxes.load_scattered_shapes),
    Dataset("figures", "objects with boxes", boxes.load_scattered_figures),
    Dataset("needle", "texts with classes", _needle),
    Dataset("coreference", "sentences with tags", coreference),
    Dataset("protein", "sentences with tags", protein),
    Dataset("relatives", "questions with answers", relatives),
    Dataset("coreference-choice", "multiple-choice questions", coreference_choice),
    Dataset("robots", "sets of vectors", load_robots),
    Dataset("arithmetic-chat", "conversations", arithmetic_chat),
)
