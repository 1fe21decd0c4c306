"""The command line. Nothing here imports torch before a command needs it."""

from __future__ import annotations

import argparse
import contextlib
import gc
import os
import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import TextIO

from headway import limits
from headway.cli.commands import command
from headway.cli.failures import is_reported, report
from headway.cli.options import check_limits
from headway.cli.parser import parse
from headway.cli.stopping import SIGNALS
from headway.cli.terminal import guarded_streams, tell
from headway.errors import AdviceWarning, ConfigError, StorageError

RUN_MODULE = "headway.runs.run"  # it imports torch, and what every command that reads a run needs


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code (docs/commands.md).

    Raises SystemExit where argparse does: after `--help` and `--version`, and for words that it does not accept.
    """
    words = sys.argv[1:] if argv is None else list(argv)
    with guarded_streams(), SIGNALS.raising():
        try:
            try:
                code = _run(words)
            except SystemExit:
                sys.stdout.flush()
                raise
            sys.stdout.flush()  # here, where a failure to write can still be reported
        except BaseException as error:
            if not is_reported(error):
                raise
            with contextlib.suppress(StorageError, BrokenPipeError):
                sys.stdout.flush()
            return report(SIGNALS.cause(error), debug="--debug" in words)
    return code


def _run(words: Sequence[str]) -> int:
    arguments = parse(words)
    if arguments.command is None:
        return 0
    warnings.showwarning = _one_line
    with limits.raised(dict(arguments.limit)):
        check_limits(arguments)
        with _checked_ahead(arguments):
            if (count := _processes(arguments)) > 1:
                from headway.cli.launching import launch, without_option

                return launch(without_option(words, "--nproc"), count)
            if getattr(command(arguments.command), "NEEDS_TORCH", True):
                _import_torch()
            with _unknown_tokens_told(arguments):
                command(arguments.command).execute(arguments)
    return 0


def _processes(arguments: argparse.Namespace) -> int:
    """How many processes a command is to have. Raises ConfigError where torchrun has started them already."""
    count = getattr(arguments, "nproc", None) or 1
    if count > 1 and "WORLD_SIZE" in os.environ:
        raise ConfigError("--nproc starts the ranks itself, and torchrun has started them: leave one of the two out")
    shows = any(getattr(arguments, name, False) for name in ("help", "dry_run", "print_config"))
    return 1 if shows else count


def _checked_ahead(arguments: argparse.Namespace) -> contextlib.AbstractContextManager[None]:
    """Check the int8 copy of a run, if it will be used, while torch is being imported."""
    run = getattr(arguments, "run", None)  # a server has several, which its engines check
    if run is None or getattr(arguments, "precision", None) not in ("int8", "auto"):
        return contextlib.nullcontext()
    from headway.storage.manifest import INT8, check_in_background  # not needed by `headway --help`

    return check_in_background(Path(run) / INT8)


def _unknown_tokens_told(arguments: argparse.Namespace) -> contextlib.AbstractContextManager[None]:
    """Count the unknown tokens of the texts that a run is given, and tell of them at the end of the command."""
    if not hasattr(arguments, "run"):
        return contextlib.nullcontext()
    from headway.data.unknown_tokens import unknown_told  # not needed by `headway --help`

    return unknown_told(lambda note: tell(f"note: {note}"))


def _import_torch() -> None:
    """Import what every command needs, with the garbage collector off.

    Modules live as long as the process: a collection that walks them takes a tenth of a second and frees nothing.
    Only once in a process: what an earlier command left to be collected would be kept for ever.
    """
    if RUN_MODULE in sys.modules:
        return
    from headway.cores import let_threads_sleep  # not needed by `headway --help`

    gc.disable()
    let_threads_sleep()
    os.environ.setdefault("TORCH_DEVICE_BACKEND_AUTOLOAD", "0")  # other vendors' devices: not used, slow to search for
    try:
        import_module(RUN_MODULE)
    finally:
        gc.freeze()
        gc.enable()


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
    tell(f"{name}: {message}")
