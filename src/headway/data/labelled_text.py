"""Labelled texts as tokens: from files, stored on disk, or the built-in `needle`, generated on demand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from headway.counts import counted
from headway.data.config import DataConfig
from headway.data.datasets import find_dataset
from headway.data.files import listed
from headway.data.labelled_rows import (
    CheckedRows,
    LabelKind,
    LabelledRows,
    expect_classes,
    load_rows,
    read_class,
)
from headway.data.synthetic.needle import CLASSES, COUNTS, WORDS, Needle
from headway.data.text_files import ParallelText
from headway.data.token_store import TokenStore, fingerprint, store_tokens
from headway.data.tokenizers import Tokenizer, Word
from headway.errors import ConfigError, DataError, one_line, shown

Tokens = NDArray[np.int64]


class TextSplit(Protocol):
    """A split: label, number of tokens and tokens of each text, and of the second text where there are pairs."""

    @property
    def labels(self) -> NDArray[Any]:
        """(N,) class indices or numbers, or (N, classes) of 0 and 1."""
        ...

    @property
    def lengths(self) -> NDArray[np.int64]:
        """(N,)."""
        ...

    @property
    def second_lengths(self) -> NDArray[np.int64] | None:
        """(N,), None without pairs."""
        ...

    def tokens(self, number: int) -> Tokens:
        """The tokens of one text, without special tokens."""
        ...

    def second(self, number: int) -> Tokens | None:
        """The tokens of the second text of a pair, without special tokens."""
        ...


@dataclass(frozen=True, slots=True)
class StoredTexts:
    """Texts, or pairs of texts, in token stores."""

    store: TokenStore
    labels: NDArray[Any]
    second_store: TokenStore | None = None

    @property
    def lengths(self) -> NDArray[np.int64]:
        """(N,)."""
        return self.store.lengths

    @property
    def second_lengths(self) -> NDArray[np.int64] | None:
        """(N,), None without pairs."""
        return None if self.second_store is None else self.second_store.lengths

    def tokens(self, number: int) -> Tokens:
        """The tokens of one text."""
        return self.store[number].astype(np.int64)

    def second(self, number: int) -> Tokens | None:
        """The tokens of the second text of a pair."""
        return None if self.second_store is None else self.second_store[number].astype(np.int64)


class NeedleTexts:
    """Documents of `needle`; `ids` maps its words to tokens."""

    def __init__(self, split: Needle, ids: NDArray[np.int64]) -> None:
        self.split, self.ids = split, ids
        self.labels, self.lengths = split.labels, split.lengths
        self.second_lengths: NDArray[np.int64] | None = None

    def tokens(self, number: int) -> Tokens:
        """The tokens of one document."""
        return self.ids[self.split.document(number, int(self.lengths[number]))]

    def second(self, number: int) -> Tokens | None:
        """No document has a second text."""
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelledTexts:
    """Labelled texts by split, with class names, tokenizer, and a digest of each split."""

    classes: tuple[str, ...]
    splits: Mapping[str, TextSplit]
    tokenizer: Tokenizer
    contents: dict[str, str]
    notes: tuple[str, ...] = ()  # for the user: what was done with the rows


def load_labelled_texts(
    data: DataConfig,
    tokenizer: Tokenizer | None,
    *,
    room: int,
    kind: LabelKind = "single",
    whole: bool = False,
) -> LabelledTexts:
    """Texts with labels by name, or by path as `load_rows` reads them: a table, or a folder for each class.

    `room` is the most tokens of a text that a model reads, and the length of `needle` documents; `whole` as there.
    Raises DataError for a class that train does not have, or what cannot be read.
    """
    dataset = find_dataset(data.spec, "texts with classes")
    if dataset is not None:
        if kind != "single":
            raise ConfigError(f"task.labels={kind}, allowed for {data.spec}: single")
        made: LabelledTexts = dataset.load(data, tokenizer, room)
        return made
    return tokenise_rows(load_rows(data, kind, whole=whole), data, tokenizer, kind)


def tokenise_rows(rows: LabelledRows, data: DataConfig, tokenizer: Tokenizer | None, kind: LabelKind) -> LabelledTexts:
    """Rows, tokenised and stored; without a tokenizer one is trained on the texts of the training split.

    Raises DataError for a class that train does not have, and for numbers where classes are expected.
    """
    contents = {split: rows.fingerprint(split) for split in rows.splits}
    labels = {split: [row.labels for row in each] for split, each in rows.splits.items()}
    notes = list(rows.notes)
    if rows.left_out:
        notes.append(f"left out: {counted(rows.left_out, 'row')} without a text or a label, or with other columns")
    classes: tuple[str, ...] = ()
    if kind != "number":
        counts = Counter(name for each in labels["train"] for name in each)
        if kind == "single" and not data.classes:
            expect_classes(rows.name, list(counts))
            if len(counts) < 2:
                raise DataError(f"{rows.name}: 1 class ({listed(tuple(counts))}), expected at least 2")
        classes = data.classes or tuple(sorted(counts))
        _expect_known(rows.name, labels, classes)
        if data.classes == () and (alone := [name for name in classes if counts[name] == 1]):
            named = listed([shown(name) for name in alone], most=5)
            notes.append(
                f"{len(alone):,} of {len(classes):,} classes have a single text in train ({named}): it is trained on, "
                "and val may not measure the class"
            )
        if data.classes == () and (alike := _alike(classes)):
            notes.append(
                f"classes that differ in case or spaces only: {' and '.join(map(shown, alike))}; if they are one, "
                "write them alike in the data"
            )
    if tokenizer is None:
        tokenizer = Tokenizer.train(data.tokenizer, (text for row in rows.splits["train"] for text in row.texts))
    cache = Path(data.cache).expanduser()
    splits = {}
    for split, found in labels.items():
        stores: list[TokenStore] = []
        for place, what in enumerate(("texts", "second texts")[: 2 if data.text2 else 1]):
            key = fingerprint([contents[split], what, tokenizer.content_hash])
            lines = tokenizer.encode_lines(row.texts[place] for row in rows.splits[split])
            stores.append(store_tokens(cache / f"texts-{key}", lines))
        splits[split] = StoredTexts(stores[0], _targets(found, classes, kind), *stores[1:])
    return LabelledTexts(classes=classes, splits=splits, tokenizer=tokenizer, contents=contents, notes=tuple(notes))


def tokenise(text: ParallelText, data: DataConfig, tokenizer: Tokenizer | None) -> LabelledTexts:
    """Pairs of class and text, tokenised and stored, for packages that make such pairs (`headway.datasets`)."""
    splits = {
        split: CheckedRows(name=f"{text.name}, {split}", cells=partial(text.pairs, split), labels=1, read=read_class)
        for split in text.splits
    }
    return tokenise_rows(LabelledRows(name=text.name, splits=splits), data, tokenizer, "single")


def _expect_known(name: str, labels: Mapping[str, Sequence[tuple[str, ...]]], classes: tuple[str, ...]) -> None:
    for split, rows in labels.items():
        if unknown := sorted({label for row in rows for label in row} - set(classes)):
            known = listed([shown(each) for each in classes], most=5)
            where = f"class {shown(unknown[0])} of split {one_line(split)}"
            raise DataError(f"{name}: {where} is not in train, which has {known}")


def _alike(classes: tuple[str, ...]) -> list[str]:
    """The first classes that differ only in case, or in spaces around them; empty if there are none."""
    groups: dict[str, list[str]] = {}
    for name in classes:
        groups.setdefault(name.strip().casefold(), []).append(name)
    return next((group for group in groups.values() if len(group) > 1), [])


def _targets(labels: Sequence[tuple[str, ...]], classes: tuple[str, ...], kind: LabelKind) -> NDArray[Any]:
    """Class indices (N,), numbers (N,) in float64, or (N, classes) of 0 and 1 in float32."""
    if kind == "number":
        return np.asarray([float(row[0]) for row in labels])
    numbers = {name: number for number, name in enumerate(classes)}
    if kind == "single":
        return np.asarray([numbers[row[0]] for row in labels])
    flags = np.zeros((len(labels), len(classes)), np.float32)
    for place, row in enumerate(labels):
        flags[place, [numbers[name] for name in row]] = 1
    return flags


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
