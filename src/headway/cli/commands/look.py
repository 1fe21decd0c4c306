"""`headway look`."""

from __future__ import annotations

from argparse import Namespace

from headway.runs import load


def run(arguments: Namespace) -> None:
    """Write one page about what the run does with this input."""
    load(arguments.run, device=arguments.device).look(arguments.input, arguments.out)
    print(f"{arguments.out}: open it in a browser; it needs no network")
