"""`headway import`."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path

from headway.cli.lines import is_terminal

HELP = "a Hugging Face model folder (config.json, safetensors, tokenizer) as a run"
EXAMPLES = (
    "headway import gpt2 --out runs/gpt2",
    "headway import gpt2 --out runs/checked --reference     and keep transformers' logits, for `headway verify`",
)


def add_arguments(parser: ArgumentParser) -> None:
    """Which folder, and where the run goes."""
    parser.add_argument("folder", metavar="DIR", help="the model folder; no code in it is executed")
    parser.add_argument("--out", metavar="RUN", required=True, help="the run folder to make")
    parser.add_argument(
        "--reference", action="store_true", help="keep logits of transformers' own model for `headway verify`"
    )


def execute(arguments: Namespace) -> None:
    """Make a run of a model folder, with a bar by bytes on stderr; the run's name goes to stdout."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    from headway.runs.import_folder import import_folder

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    watched = is_terminal(sys.stderr)
    with Progress(*columns, console=Console(stderr=True), transient=True, disable=not watched) as bar:
        task = bar.add_task(f"import {Path(arguments.folder).name}", total=None)
        imported = import_folder(
            Path(arguments.folder),
            Path(arguments.out),
            lambda done, all: bar.update(task, completed=done, total=all),
            with_reference=arguments.reference,
        )
    for note in imported.notes:
        print(f"headway: note: {note}", file=sys.stderr)
    print(
        f"headway: {imported.family}, {imported.parameters:,} parameters in {imported.tensors:,} tensors, "
        f"{imported.bytes:,} bytes ({imported.dtype}); self-check: finite, largest output {imported.largest:.4g}",
        file=sys.stderr,
    )
    print(arguments.out)
