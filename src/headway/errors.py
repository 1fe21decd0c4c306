"""The errors that headway raises: one line each, naming the value received and what is allowed.

Each class has the exit code with which a command ends.
"""

from __future__ import annotations


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


class NonFiniteError(HeadwayError):
    """The loss or gradient is NaN or infinite."""

    exit_code = 6


class BadModelError(HeadwayError):
    """A model folder that cannot be imported: what is wrong, in which file, field or tensor."""

    exit_code = 7


class AdviceWarning(UserWarning):
    """Headway continues in another way than the one requested; one line says why."""
