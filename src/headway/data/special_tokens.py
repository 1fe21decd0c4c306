"""The special tokens of an imported vocabulary, by id instead of by name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True, slots=True, kw_only=True)
class SpecialTokens:
    """The ids of special tokens; none or empty where the vocabulary has no such token."""

    name: ClassVar[str] = "marks"  # its `type` in config.yaml
    size_limits: ClassVar[dict[str, str]] = dict.fromkeys(
        ("pad", "unk", "start", "stop", "stops", "mask", "before", "after", "between", "banned"), "vocabulary"
    )

    pad: int | None = None  # fills up the rows of a batch
    unk: int | None = None  # stands for what the vocabulary lacks
    start: int | None = None  # what a decoder is given first; before a text of a masked model
    stop: int | None = None  # after a source, and what ends a target
    stops: tuple[int, ...] = ()  # any of these ends a text
    mask: int | None = None  # stands for a hidden token of a masked language model
    before: tuple[int, ...] = ()  # what is put in front of every text
    after: tuple[int, ...] = ()  # and behind it, where it is read as a whole
    between: tuple[int, ...] = ()  # between the two texts of a pair, RoBERTa's </s></s>; empty: as behind a text
    banned: tuple[int, ...] = ()  # never written
