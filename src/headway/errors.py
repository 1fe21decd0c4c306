"""The errors headway raises on purpose: one line each, naming the value received and what is allowed.

Every class carries the exit code its command ends with, so that the table in the documentation and the
behaviour of the program are one fact.
"""

from __future__ import annotations


class HeadwayError(Exception):
    """Something the user can mend; shown as one line, a traceback only with `--debug`."""

    exit_code = 1


class ConfigError(HeadwayError):
    """A setting that makes no sense, alone or beside another."""

    exit_code = 2


class ShapeError(ConfigError):
    """A tensor or mask whose dimensions do not fit the others."""


class KernelError(ConfigError):
    """A kernel that was asked for by name and cannot do this call."""


class DataError(HeadwayError):
    """Input that cannot be processed: ids outside the vocabulary, empty or overlong sequences, bad files."""

    exit_code = 3


class TooLongError(DataError):
    """A sequence of more tokens than a model has positions for."""


class VerificationError(HeadwayError):
    """Ways to the same logits that give other ones."""

    exit_code = 3


class NoRunError(HeadwayError):
    """No such run, or none of its checkpoints is sound."""

    exit_code = 4


class StorageError(HeadwayError):
    """The disk would not take what was to be written."""

    exit_code = 5


class NonFiniteError(HeadwayError):
    """Training met a number that is none."""

    exit_code = 6


class BadModelError(HeadwayError):
    """A model folder that cannot be taken up: what is wrong with it, in which file, field or tensor."""

    exit_code = 7


class AdviceWarning(UserWarning):
    """One line of advice: headway went on in another way than the one asked for."""
