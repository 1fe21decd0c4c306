"""`--nproc`: a command run by several processes on this machine."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from headway.cli.terminal import tell
from headway.training.launching import Launcher, die_with


def launch(words: Sequence[str], count: int) -> int:
    """Run `headway WORDS` as `count` ranks -> the exit code."""
    with tempfile.TemporaryDirectory(prefix="headway-ranks-") as folder:
        return ranks_of([sys.executable, "-m", "headway", *words], count, Path(folder)).run()


def ranks_of(command: Sequence[str], count: int, folder: Path) -> Launcher:
    """What starts a command as `count` ranks, which find each other by files in a folder."""

    def start(number: int, environment: Mapping[str, str], errors: Path | None) -> subprocess.Popen[bytes]:
        with errors.open("wb") if errors else contextlib.nullcontext() as stderr:
            return subprocess.Popen(
                command,
                env={**os.environ, **environment},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL if number else None,
                stderr=stderr,
                start_new_session=True,  # Ctrl-C reaches this process alone, which passes it on
                preexec_fn=die_with(os.getpid()),
            )

    return Launcher(count, folder, start, tell)


def without_option(words: Sequence[str], name: str) -> list[str]:
    """The words of a command line without an option and its value."""
    kept, skip = [], False
    for word in words:
        if not skip and word != name and not word.startswith(f"{name}="):
            kept.append(word)
        skip = not skip and word == name
    return kept
