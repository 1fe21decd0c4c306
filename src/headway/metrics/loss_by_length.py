"""Loss by window length, shorter and longer than in training: length extrapolation (Press et al. 2022)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from headway.errors import ConfigError, DataError
from headway.metrics.language import LanguageReport

DIGITS = 18  # of any number that a tensor can hold
FORM = "expected whole numbers from 1 with commas between, as in 64,128,256"


def parse_lengths(text: str) -> tuple[int, ...]:
    """`64,128,256` as sorted, unique numbers. Raises ConfigError for anything else."""
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdigit() for part in parts):
        raise ConfigError(f"--lengths {text!r}: {FORM}")
    if max(map(len, parts)) > DIGITS:
        raise ConfigError(f"--lengths: a number of {max(map(len, parts)):,} digits, allowed: up to {DIGITS}")
    if "0" in (part.lstrip("0") or "0" for part in parts):
        raise ConfigError(f"--lengths {text!r}: a window of 0 tokens, {FORM}")
    return tuple(sorted(set(map(int, parts))))


def check_lengths(lengths: Sequence[int], *, longest: int, what: str) -> None:
    """Raise DataError for a length above `longest`."""
    for length in lengths:
        if length > longest:
            raise DataError(f"--lengths {length}: {what}, allowed: 1 to {longest}")


@dataclass(frozen=True, slots=True, kw_only=True)
class LengthRow:
    """The loss in windows of one length, disjoint and sliding (None if not applicable), or why it is unsupported."""

    length: int
    blocks: LanguageReport | None = None
    sliding: LanguageReport | None = None
    stride: int | None = None
    refused: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LengthReport:
    """A row for each length; `trained` is the length of training."""

    rows: tuple[LengthRow, ...]
    trained: int

    @property
    def blocks(self) -> dict[int, float]:
        """The loss in disjoint windows by length, where known."""
        return {row.length: row.blocks.loss for row in self.rows if row.blocks is not None}

    @property
    def sliding(self) -> dict[int, float]:
        """The loss in sliding windows by length, where known."""
        return {row.length: row.sliding.loss for row in self.rows if row.sliding is not None}

    @property
    def last(self) -> int | None:
        """The longest length before the first unsupported one; None if all are supported."""
        refused = [row.length for row in self.rows if row.refused is not None]
        return max((length for length in self.blocks if length < refused[0]), default=0) if refused else None

    def to_json(self) -> dict[str, Any]:
        """Parallel lists with an entry per length; null where unsupported or unknown."""
        return {
            "trained_length": self.trained,
            "lengths": [row.length for row in self.rows],
            **dict(_listed("", [row.blocks for row in self.rows])),
            **dict(_listed("sliding_", [row.sliding for row in self.rows])),
            "sliding_stride_by_length": [row.stride for row in self.rows],
            "refused_by_length": [row.refused for row in self.rows],
        }


def _listed(prefix: str, reports: Sequence[LanguageReport | None]) -> Iterator[tuple[str, list[Any]]]:
    values = [{} if report is None else report.to_json() for report in reports]
    for key in ("loss", "perplexity", "bits_per_byte"):
        yield f"{prefix}{key}_by_length", [each.get(key) for each in values]
