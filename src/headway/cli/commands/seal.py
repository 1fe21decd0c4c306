"""`headway seal`."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

from headway.cli.terminal import tell

HELP = "accept the files of a run as they are: a new manifest over its config, tokenizers and data digests"
EXAMPLES = ("headway seal runs/en-de    after editing runs/en-de/config.yaml by hand",)


def add_arguments(parser: ArgumentParser) -> None:
    """Which run."""
    parser.add_argument("folder", metavar="RUN", help="a run folder, as `headway train` writes it")


def execute(arguments: Namespace) -> None:
    """Write the manifest; what changed since the last one goes to stderr."""
    from headway.runs.seal import seal_run

    changed = seal_run(Path(arguments.folder))
    what = ", ".join(changed) if changed else "no file"
    tell(f"{what} changed since the last manifest")
