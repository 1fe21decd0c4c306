"""Labelled texts as tokens: from files, stored on disk, or the built-in `needle`, generated on demand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import compress
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from headway.data.config import DataConfig
from headway.data.datasets import find_dataset
from headway.data.digests import split_digests
from headway.data.synthetic.needle import CLASSES, COUNTS, WORDS, Needle
from headway.data.tables import Pair
from headway.data.text_files import ParallelText, TableRows, load_parallel
from headway.data.token_store import TokenStore, fingerprint, store_tokens
from headway.data.tokenizers import Tokenizer, Word
from headway.errors import ConfigError, DataError, one_line, shown

Tokens = NDArray[np.int64]


class TextSplit(Protocol):
    """A split: class, number of tokens and tokens of each text."""

    @property
    def labels(self) -> NDArray[np.int64]:
        """(N,)."""
        ...

    @property
    def lengths(self) -> NDArray[np.int64]:
        """(N,)."""
        ...

    def tokens(self, number: int) -> Tokens:
        """The tokens of one text, without special tokens."""
        ...


@dataclass(frozen=True, slots=True)
class StoredTexts:
    """Texts in a token store."""

    store: TokenStore
    labels: NDArray[np.int64]

    @property
    def lengths(self) -> NDArray[np.int64]:
        """(N,)."""
        return self.store.lengths

    def tokens(self, number: int) -> Tokens:
        """The tokens of one text."""
        return self.store[number].astype(np.int64)


class NeedleTexts:
    """Documents of `needle`; `ids` maps its words to tokens."""

    def __init__(self, split: Needle, ids: NDArray[np.int64]) -> None:
        self.split, self.ids = split, ids
        self.labels, self.lengths = split.labels, split.lengths

    def tokens(self, number: int) -> Tokens:
        """The tokens of one document."""
        return self.ids[self.split.document(number, int(self.lengths[number]))]


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelledTexts:
    """Labelled texts by split, with class names, tokenizer, and a digest of each split."""

    classes: tuple[str, ...]
    splits: Mapping[str, TextSplit]
    tokenizer: Tokenizer
    contents: dict[str, str]
    by_class: bool = False  # the rows are sorted by class, and a tenth of each class is held out


def load_labelled_texts(data: DataConfig, tokenizer: Tokenizer | None, *, room: int) -> LabelledTexts:
    """Texts with classes by name, or by path: a table with columns `data.label` and `data.text`, or a folder of one
    per split.

    `room` is the most tokens of a text that a model reads, and the length of `needle` documents. Raises DataError for
    a class that train does not have, or what cannot be read.
    """
    dataset = find_dataset(data.spec, "texts with classes")
    if dataset is not None:
        made: LabelledTexts = dataset.load(data, tokenizer, room)
        return made
    what = "texts with classes"
    text = load_parallel(data.spec, data.label, data.text, errors=data.errors, numbers=True, what=what)
    divided = divide_by_class(text)
    return replace(tokenise(divided, data, tokenizer), by_class=divided is not text)


@dataclass(frozen=True, slots=True)
class ChosenRows:
    """Some of the rows of a table."""

    rows: TableRows
    chosen: NDArray[np.bool_]

    def __iter__(self) -> Iterator[Pair]:
        return compress(self.rows, self.chosen)


def divide_by_class(text: ParallelText) -> ParallelText:
    """The same rows with the last tenth of each class as val, where the last tenth of all has one class or new ones.

    Tables that are sorted by class look like that. Other data, or a val split of its own, stays as it is.
    """
    train, val = text.splits["train"], text.splits["val"]
    if not (isinstance(train, TableRows) and isinstance(val, TableRows) and train.path == val.path):
        return text
    labels = [[label for label, _ in rows] for rows in (train, val)]
    there, held_out = map(set, labels)
    if held_out <= there and (len(held_out) > 1 or len(there) == 1):
        return text
    every = np.asarray(labels[0] + labels[1])
    held = np.zeros(len(every), bool)
    for label in np.unique(every):
        rows = np.flatnonzero(every == label)
        if len(rows) > 1:
            held[rows[-max(len(rows) // 10, 1) :]] = True
    whole = replace(train, stop=None)
    splits = {**text.splits, "train": ChosenRows(whole, ~held), "val": ChosenRows(whole, held)}
    return replace(text, splits=splits)


def tokenise(text: ParallelText, data: DataConfig, tokenizer: Tokenizer | None) -> LabelledTexts:
    """Pairs of class and text, tokenised and stored; without a tokenizer one is trained on the training split.

    Raises DataError for a class that train does not have.
    """
    found = split_digests(text)
    labels = {split: [label for label, _ in text.pairs(split)] for split in text.splits}
    classes = data.classes or tuple(sorted(set(labels["train"])))
    numbers = {name: number for number, name in enumerate(classes)}
    for split, names in labels.items():
        if unknown := sorted(set(names) - set(classes)):
            raise DataError(f"{text.name}: class {shown(unknown[0])} of split {one_line(split)} is not in train")
    if tokenizer is None:
        tokenizer = Tokenizer.train(data.tokenizer, (line for _, line in text.pairs("train")))
    cache = Path(data.cache).expanduser()
    splits = {}
    for split, names in labels.items():
        key = fingerprint([found[split], "texts", tokenizer.content_hash])
        lines = tokenizer.encode_lines(line for _, line in text.pairs(split))
        splits[split] = StoredTexts(
            store_tokens(cache / f"texts-{key}", lines), np.asarray([numbers[n] for n in names])
        )
    return LabelledTexts(classes=classes, splits=splits, tokenizer=tokenizer, contents=found)


def load_needle(data: DataConfig, tokenizer: Tokenizer | None, room: int) -> LabelledTexts:
    """The built-in documents, up to `room` words long. Raises ConfigError unless the tokenizer is by words."""
    if not isinstance(data.tokenizer, Word):
        kind = type(data.tokenizer).__name__.lower()
        raise ConfigError(f"data.tokenizer={kind}, allowed for needle: word")
    if tokenizer is None:
        tokenizer = Tokenizer.train(data.tokenizer, [" ".join(WORDS)])
    ids = np.asarray([tokenizer.encode(word)[0] for word in WORDS])
    made = {split: Needle(split, room) for split in COUNTS}
    return LabelledTexts(
        classes=CLASSES,
        splits={split: NeedleTexts(each, ids) for split, each in made.items()},
        tokenizer=tokenizer,
        contents={split: each.content for split, each in made.items()},
    )
