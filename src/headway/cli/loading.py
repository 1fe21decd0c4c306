"""The run that a command computes with, by the options of the command."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headway.runs import Run


def load_run(arguments: Namespace) -> Run:
    """The run named RUN: `--device`, `--average`, and `--adapter` and `--precision` where the command has them."""
    from headway.runs import load

    return load(
        arguments.run,
        device=arguments.device,
        average=arguments.average,
        precision=getattr(arguments, "precision", "fp32"),
        adapter=getattr(arguments, "adapter", None),
    )
