"""`headway import`."""

from __future__ import annotations

import sys
from argparse import Namespace
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

from headway.cli.lines import is_terminal
from headway.runs.import_folder import import_folder


def run(arguments: Namespace) -> None:
    """Make a run of a model folder, with a bar by bytes on stderr; the run's name goes to stdout."""
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    watched = is_terminal(sys.stderr)
    with Progress(*columns, console=Console(stderr=True), transient=True, disable=not watched) as bar:
        task = bar.add_task(f"import {Path(arguments.folder).name}", total=None)
        found = import_folder(
            Path(arguments.folder),
            Path(arguments.out),
            lambda done, all: bar.update(task, completed=done, total=all),
            with_reference=arguments.reference,
        )
    for note in found.notes:
        print(f"headway: note: {note}", file=sys.stderr)
    print(
        f"headway: {found.family}, {found.parameters:,} parameters in {found.tensors:,} tensors, "
        f"{found.bytes:,} bytes ({found.dtype}); self-check: finite, largest output {found.largest:.4g}",
        file=sys.stderr,
    )
    print(arguments.out)
