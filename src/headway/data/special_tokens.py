"""The special tokens of an imported vocabulary, by id instead of by name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True, slots=True, kw_only=True)
class SpecialTokens:
    """The ids of special tokens; None or empty where the vocabulary has no such token."""

    name: ClassVar[str] = "marks"  # its `type` in config.yaml

    pad: int | None = None
    unk: int | None = None
    start: int | None = None  # the first input of a decoder; the first token of a masked LM's text
    stop: int | None = None  # the last token of a source, and what ends a target
    stops: tuple[int, ...] = ()  # any of these ends a text
    mask: int | None = None
    before: tuple[int, ...] = ()  # added before every text
    after: tuple[int, ...] = ()  # added after a text that is read as a whole
    banned: tuple[int, ...] = ()  # never generated
