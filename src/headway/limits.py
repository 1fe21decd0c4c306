"""The limits of headway: how large a file, a setting or a piece of work may be before it is refused.

Each limit is far above ordinary use, and can be raised by name: `--limit NAME=N` on the command line, `raised` in
Python. This module imports nothing but the errors.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from headway.errors import ConfigError, HeadwayError


class Limit(NamedTuple):  # not a dataclass: their module imports five others, and `headway --help` waits for this one
    """The largest value allowed, in what unit, and of what."""

    value: int
    unit: str
    of: str


LIMITS: dict[str, Limit] = {
    "config-bytes": Limit(1_000_000, "bytes", "a YAML or JSON file of settings"),
    "document-bytes": Limit(256_000_000, "bytes", "a JSON file of data, for instance COCO annotations"),
    "tokenizer-bytes": Limit(32_000_000, "bytes", "the JSON file of a tokenizer"),
    "depth": Limit(64, "levels", "nested lists and mappings in YAML or JSON"),
    "layers": Limit(1_024, "layers", "a stack of a model"),
    "width": Limit(65_536, "numbers", "a size of a model's tensors, such as its width or inner width"),
    "context": Limit(1_048_576, "tokens", "the context of a model"),
    "vocabulary": Limit(4_194_304, "tokens", "a vocabulary"),
    "parameters": Limit(20_000_000_000, "parameters", "a model"),
    "beam": Limit(1_024, "hypotheses", "a beam, or the list of the best N"),
    "output-tokens": Limit(100_000, "tokens", "one generated text or translation"),
    "word": Limit(100_000, "characters", "one word without a space"),
    "line": Limit(16_777_216, "characters", "one line of a text file"),
    "cell-bytes": Limit(67_108_864, "bytes", "one cell of a table"),
    "expansion": Limit(16, "times", "how much longer a tokenizer may make a text"),
    "decompressed-bytes": Limit(68_719_476_736, "bytes", "a compressed file once it is decompressed"),
    "pixels": Limit(100_000_000, "pixels", "one image"),
    "image-side": Limit(8_192, "pixels", "a side of the images of a model or task"),
    "batch": Limit(67_108_864, "tokens or examples", "one batch"),
    "list": Limit(65_536, "entries", "a list in a config"),
    "episodes": Limit(1_000_000, "episodes", "one call of play"),
    "lab-runs": Limit(1_000, "runs", "one lab, for each kind that it compares"),
    "file-bytes": Limit(1_073_741_824, "bytes", "a file of data that is read as a whole, such as an image or a sound"),
    "compression-ratio": Limit(100, "times its size", "how much larger a compressed file may be decompressed"),
    "samples": Limit(268_435_456, "samples", "one sound"),
    "round-steps": Limit(100_000, "steps", "one phase of a round of training"),
    "setting-length": Limit(4_096, "characters", "a name, path or other text in a config"),
    "token": Limit(65_536, "characters", "one token of a vocabulary"),
    "constraints": Limit(20_000_000, "transitions", "the automaton of required and banned phrases"),
    "nested-tokens": Limit(128, "tokens", "tokens of a Unigram vocabulary of which each begins with the one before it"),
    "wordpiece-word": Limit(1_000, "characters", "a word that WordPiece divides, in a time that grows with its cube"),
}

_current = {name: limit.value for name, limit in LIMITS.items()}


def limit(name: str) -> int:
    """The present value of a limit."""
    return _current[name]


def expect_within(name: str, value: int | float, what: str, error: type[HeadwayError] = ConfigError) -> None:
    """Raise `error`, with the limit and the option that raises it, for a value above a limit.

    `what` names the value in the message, for instance "model.layers" or the path of a file.
    """
    if value > _current[name]:
        raise error(
            f"{what}: {_number(value)} {LIMITS[name].unit}, allowed: up to {_current[name]:,} "
            f"(--limit {name}=N raises it)"
        )


@contextlib.contextmanager
def raised(values: Mapping[str, int]) -> Iterator[None]:
    """Set limits by name for the duration of a block. Raises ConfigError for an unknown name or a value below 1."""
    before = dict(_current)
    for name, value in values.items():
        if name not in LIMITS:
            raise ConfigError(f"no limit {name!r}; there are: {', '.join(LIMITS)}")
        if value < 1:
            raise ConfigError(f"limit {name}={value}, allowed: whole numbers from 1")
    _current.update(values)
    try:
        yield
    finally:
        _current.update(before)


def _number(value: int | float) -> str:
    # Python refuses to write an integer of more than 4,300 digits in decimal.
    if isinstance(value, int) and value.bit_length() > 64:
        return f"a number of {value.bit_length()} bits of"
    return f"{value:,}"
