"""The command line. Nothing here imports torch before a command needs it."""

from __future__ import annotations

import argparse
import contextlib
import errno
import gc
import os
import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import TextIO

from headway.cli.commands import command
from headway.cli.parser import build_parser, named_commands
from headway.errors import AdviceWarning, HeadwayError, StorageError

TAKE_OVERRIDES = ("train", "lab")  # commands with --KEY.SUB VALUE


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the exit codes are in docs/commands.md."""
    words = sys.argv[1:] if argv is None else argv
    parser = build_parser(named_commands(words))
    arguments, rest = parser.parse_known_args(words)
    if rest and arguments.command not in TAKE_OVERRIDES:
        parser.error(f"unknown arguments: {' '.join(rest)}")
    if arguments.command is None:
        parser.print_help()
        return 0
    arguments.overrides = rest
    warnings.showwarning = _one_line
    try:
        with _checked_ahead(arguments):
            _import_torch()
            command(arguments.command).execute(arguments)
        sys.stdout.flush()  # here, where a failure to write can still be reported
    except HeadwayError as error:
        if arguments.debug:
            raise
        print(f"headway: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("headway: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # `headway presets | head`: the reader has seen enough
        _drop_output()
    except OSError as error:
        if arguments.debug or error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        _drop_output()
        print(f"headway: {error.filename or 'standard output'}: could not be written (no space left)", file=sys.stderr)
        return StorageError.exit_code
    return 0


def _checked_ahead(arguments: argparse.Namespace) -> contextlib.AbstractContextManager[None]:
    """Check the int8 copy of a run, if it will be used, while torch is being imported."""
    if getattr(arguments, "precision", None) not in ("int8", "auto"):
        return contextlib.nullcontext()
    from headway.storage.manifest import INT8, check_in_background  # not needed by `headway --help`

    return check_in_background(Path(arguments.run) / INT8)


def _import_torch() -> None:
    """Import what every command needs, with the garbage collector off.

    Modules live as long as the process: a collection that walks them takes a tenth of a second and frees nothing.
    """
    gc.disable()
    os.environ.setdefault("TORCH_DEVICE_BACKEND_AUTOLOAD", "0")  # other vendors' devices: not used, slow to search for
    try:
        import_module("headway.runs.run")
    finally:
        gc.freeze()
        gc.enable()


def _drop_output() -> None:
    """Send what is left to print to the null device, else Python fails on it once more when it exits."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _one_line(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Print a warning as one line on stderr."""
    name = "note" if issubclass(category, AdviceWarning) else category.__name__
    print(f"headway: {name}: {message}", file=sys.stderr)
