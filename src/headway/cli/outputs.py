"""The files that commands write: checked before anything is computed, `-` for standard output."""

from __future__ import annotations

import sys
from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from headway.cli.terminal import is_terminal, print_bytes, tell
from headway.errors import ConfigError
from headway.storage.commit import commit_output
from headway.storage.targets import expect_output

if TYPE_CHECKING:
    from headway.cli.console import SafeConsole

STDOUT = "-"
TEXT: tuple[str, ...] = ()  # a text may have any name
PNG = (".png",)


def expect_outputs(arguments: Namespace, *, stdout_has: str | None = None, **endings: tuple[str, ...]) -> None:
    """Raise ConfigError or StorageError for an output file that cannot be written.

    `endings` has the options that name files, each with the endings that it allows. `stdout_has` says what a command
    always prints: `-` is then no name of a file.
    """
    given = [(name, str(target)) for name in endings if (target := getattr(arguments, name)) is not None]
    printed = [f"--{name} -" for name, target in given if target == STDOUT]
    if printed and stdout_has is not None:
        raise ConfigError(f"{printed[0]}: standard output has {stdout_has}; name a file")
    if printed and getattr(arguments, "json", False):
        printed.append("--json")
    if len(printed) > 1:
        raise ConfigError(f"{' and '.join(printed)} cannot both have standard output; name a file")
    for name, target in given:
        if target != STDOUT:
            if endings[name] and Path(target).suffix.lower() not in endings[name]:
                raise ConfigError(f"--{name} {target}, allowed: a name that ends in {' or '.join(endings[name])}")
            expect_output(Path(target))
        elif endings[name] and is_terminal(sys.stdout):
            raise ConfigError(f"--{name} -: stdout is a terminal, which {endings[name][0]} is not for; name a file")


def expect_folder(target: str) -> None:
    """Raise ConfigError for an `--out` that is a folder, and was given as standard output."""
    if target == STDOUT:
        raise ConfigError("--out -: a folder cannot be written to standard output; name a folder")


def write_output(target: str, content: str | bytes, said: str = "") -> None:
    """Write a file and say so on stderr, or write to standard output."""
    if target != STDOUT:
        commit_output(Path(target), content)
        if said:
            tell(said)
    elif isinstance(content, str) and (is_terminal(sys.stdout) or not hasattr(sys.stdout, "buffer")):
        sys.stdout.write(content)
    else:  # a text as UTF-8, whatever the locale
        print_bytes(content.encode() if isinstance(content, str) else content)


def write_picture(target: str, picture: bytes, *, count: int, most: int) -> None:
    """Write a picture and say so, and how many of `count` images it has where those are not all."""
    left = f"; the first {most} of {count} images" if count > most else ""
    write_output(target, picture, f"a picture in {target}{left}")


def report_console(*targets: str | None) -> SafeConsole:
    """Where a command prints its report: stdout, or stderr if one of its files has that."""
    from headway.cli.console import SafeConsole

    return SafeConsole(stderr=STDOUT in targets)
