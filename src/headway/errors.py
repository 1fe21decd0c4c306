"""The errors that headway raises: one line each, naming the value received and what is allowed.

Each class has the exit code with which a command ends.
"""

from __future__ import annotations

import itertools
import warnings

MAX_SHOWN = 80  # characters of a value in an error


class HeadwayError(Exception):
    """Base class: shown as one line, with a traceback only under `--debug`."""

    exit_code = 1


class ConfigError(HeadwayError):
    """An invalid setting, alone or in combination with another."""

    exit_code = 2


class ShapeError(ConfigError):
    """A tensor or mask of the wrong shape."""


class KernelError(ConfigError):
    """A kernel that was requested by name and does not support the call."""


class DataError(HeadwayError):
    """Input that cannot be processed: ids outside the vocabulary, empty or overlong sequences, bad files."""

    exit_code = 3


class NoColumnError(DataError):
    """A table without a column that was to be read."""


class NoDataSetError(DataError):
    """Neither a registered data set nor a path that exists."""


class InputError(DataError):
    """One of several inputs cannot be used: `row` is its index, `what` it is called, and the reason."""

    def __init__(self, row: int, reason: str, what: str = "text") -> None:
        super().__init__(row, reason, what)
        self.row, self.reason, self.what = row, reason, what

    def __str__(self) -> str:
        return f"{self.what} {self.row + 1}: {self.reason}"


class TooLongError(DataError):
    """A sequence longer than the positions of a model."""


class UnknownCharacterError(DataError):
    """A character that a vocabulary of characters does not have."""

    def __init__(self, character: str, message: str) -> None:
        super().__init__(message)
        self.character = character


class VerificationError(HeadwayError):
    """Two code paths disagree on the logits."""

    exit_code = 3


class NoRunError(HeadwayError):
    """No such run, or no valid checkpoint in it."""

    exit_code = 4


class StorageError(HeadwayError):
    """A file could not be written, for instance on a full disk."""

    exit_code = 5


DIVERGED = "the weights have diverged or the precision overflows: use another checkpoint, or precision fp32"


class NonFiniteError(HeadwayError):
    """A loss, gradient, weight or output is NaN or infinite."""

    exit_code = 6


class NonFiniteOutputError(NonFiniteError):
    """A model's output for one of its inputs is NaN or infinite.

    `row` is the input's index, `what` it is called, `step` the token that was to be generated. Who divides inputs into
    batches sets `row` to the index among all of them.
    """

    def __init__(self, row: int, step: int | None = None, what: str = "sequence") -> None:
        super().__init__(row, step, what)
        self.row, self.step, self.what = row, step, what

    def __str__(self) -> str:
        where = f"{self.what} {self.row + 1}" + ("" if self.step is None else f", token {self.step}")
        return f"{where}: the model's output is NaN or infinite; {DIVERGED}"


class BadModelError(HeadwayError):
    """A model folder that cannot be imported: what is wrong, in which file, field or tensor."""

    exit_code = 7


class ServeError(HeadwayError):
    """The server cannot start, or cannot go on."""

    exit_code = 8


class RankError(HeadwayError):
    """Another process of a training that several share has ended, or does not answer."""

    exit_code = 10


class AdviceWarning(UserWarning):
    """Headway continues in another way than the one requested; one line says why."""


class UnknownTokensWarning(UserWarning):
    """A text has tokens that the vocabulary of the model does not hold; one line says how many."""


def warn_unknown_tokens(text: str) -> None:
    """Warn the caller of a run's method that a text has unknown tokens (headway.data.unknown_tokens)."""
    warnings.warn(text, UnknownTokensWarning, stacklevel=5)  # above: a block that ends, twice contextlib, the method


def advise(text: str) -> None:
    """Tell the user something by an AdviceWarning, which a command prints as one line on stderr."""
    warnings.warn(text, AdviceWarning, stacklevel=3)


def shown(value: object, most: int = MAX_SHOWN) -> str:
    """A value from a file or a command line for an error: on one line, printable and short, whatever its size."""
    text = _start(value, most, 4)
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _start(value: object, most: int, levels: int) -> str:
    """As much of `repr(value)` as is shown, in a time that does not depend on the size of the value."""
    if isinstance(value, str | bytes):
        return repr(value[: most + 1])
    if isinstance(value, int) and value.bit_length() > 14_000:  # Python writes no integer of more than 4,300 digits
        return f"<an integer of {value.bit_length()} bits>"
    if isinstance(value, dict | list | tuple):
        left, right = ("{", "}") if isinstance(value, dict) else ("[", "]") if isinstance(value, list) else ("(", ")")
        if not levels:
            return f"{left}…{right}"
        pairs = isinstance(value, dict)
        parts = [
            ": ".join(_start(part, most, levels - 1) for part in (each if pairs else (each,)))
            for each in itertools.islice(value.items() if isinstance(value, dict) else value, most // 3)
        ]
        more = ", …" if len(value) > len(parts) else "," if len(value) == 1 and left == "(" else ""
        return f"{left}{', '.join(parts)}{more}{right}"
    try:
        return repr(value)
    except Exception:  # an object may write itself as it likes, for instance with an integer of too many digits
        return f"<{type(value).__name__}>"


def one_line(error: object) -> str:
    """A message that may quote a file, on one line, printable and short."""
    text = " ".join(str(error)[:2000].split())
    return "".join(char if char.isprintable() else "?" for char in text)[:400]
