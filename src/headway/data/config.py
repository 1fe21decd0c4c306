"""The `data` section of a run's config."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from headway.data.tokenizers import Bpe, SpecialTokens, TokenizerConfig
from headway.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class DataConfig:
    """A data set by name or path, and how its text is tokenised."""

    spec: str = ""  # a built-in name or a path
    source: str = "en"  # parallel text: the ending of the source files, or the name of its column
    target: str = "fr"  # parallel text: the ending of the target files, or the name of their column
    text: str = "text"  # of a table: the name of the column with the text; its number from 1, if there is no header
    text2: str = ""  # of a table of pairs of texts with a label: the column with the second text; "": one text
    label: str = "label"  # of a table of texts with labels: the name or the number of its column; a,b,c: 0/1 columns
    separator: str = "|"  # between the labels in a cell, where a text has several
    group: str = ""  # of a table of vectors: the column that names the set of a row; "" takes one named set, id, …
    features: tuple[str, ...] = ()  # of a table of vectors: the columns with numbers; () takes all other columns
    tokenizer: TokenizerConfig = Bpe()  # how text becomes tokens, with its settings
    marks: SpecialTokens | None = None  # ids of the special tokens; none: headway's own
    new_tokens: tuple[str, ...] = ()  # added to the vocabulary of the run that --init names; a word matches whole words
    joint: bool = True  # one vocabulary for source and target
    errors: Literal["strict", "replace"] = "strict"  # invalid UTF-8: stop, or read as U+FFFD
    classes: tuple[str, ...] = ()  # by class index; () takes the classes of the data
    val: str = ""  # of images or sounds: the split to validate on; "" takes val, else holds out a tenth of train
    share: float = 1.0  # of images: the fraction of each class of train to use; smaller subsets are part of larger
    skip_bad: bool = (
        False  # skip unreadable images and sounds, rows without a text or a label, and broken rows, instead of stopping
    )
    cache: str = "~/.cache/headway"  # tokenised text, decoded images and frames of sounds, by content hash

    def __post_init__(self) -> None:
        if not 0.0 < self.share <= 1.0:
            raise ConfigError(f"data.share={self.share}, allowed: above 0, at most 1")
