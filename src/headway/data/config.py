"""What a run reads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from headway.data.tokenizers import Bpe, Marks, TokenizerConfig
from headway.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class DataConfig:
    """A data set by name or path, and how its text becomes tokens."""

    spec: str = ""  # a built-in name or a path
    source: str = "en"  # parallel text: the ending of the source files, or the name of its column
    target: str = "fr"  # parallel text: the ending of the target files, or the name of their column
    tokenizer: TokenizerConfig = Bpe()  # how text becomes tokens, with its settings
    marks: Marks | None = None  # special tokens, of an imported model or one that translates; None: headway's own
    joint: bool = True  # one vocabulary for source and target
    errors: Literal["strict", "replace"] = "strict"  # what to do with bytes that are no UTF-8
    classes: tuple[str, ...] = ()  # of images, in the order of their numbers; () takes what the data says
    val: str = ""  # of images: the split to validate on; "" takes val, or a tenth of train, which is then held out
    share: float = 1.0  # of images: how much of train is used, of each class alike; a smaller share is part of a larger
    skip_bad: bool = False  # leave images out that cannot be read, instead of stopping
    cache: str = "~/.cache/headway"  # where tokenised text and decoded images are kept, by content

    def __post_init__(self) -> None:
        if not 0.0 < self.share <= 1.0:
            raise ConfigError(f"data.share={self.share}, allowed: above 0, at most 1")
