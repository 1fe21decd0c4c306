"""`headway trace`."""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from headway.cli import options
from headway.errors import DataError

if TYPE_CHECKING:
    from headway.decoding.trace import Trace

HELP = "a search that `translate --trace` kept: its hypotheses, its tree, another length penalty; no model needed"
EXAMPLES = (
    "headway trace beam.jsonl                              winner, finished hypotheses, each step's words",
    "headway trace beam.jsonl --length-penalty 1.5         the same hypotheses, ranked again",
    "headway trace beam.jsonl --plot beam.png              the tree and the alignment as a picture",
)
FORMATS: dict[str, Literal["png", "svg"]] = {".png": "png", ".svg": "svg"}


def add_arguments(parser: ArgumentParser) -> None:
    """Which trace, and how to show it."""
    parser.add_argument("file", metavar="FILE", help="what `headway translate --trace FILE` wrote")
    parser.add_argument(
        "--line", type=options.positive, default=1, metavar="N", help="which input line (default: %(default)s)"
    )
    parser.add_argument(
        "--length-penalty", type=options.finite, metavar="A", help="rank the finished hypotheses with it instead"
    )
    parser.add_argument(
        "--plot", metavar="FILE.png", help="draw the tree and the alignment, as .png or .svg; - for stdout"
    )
    options.add_json(parser, "hypotheses, nodes and attention in one object")


def execute(arguments: Namespace) -> None:
    """Show the search of one input line, ranked with another length penalty if one is given."""
    from headway.cli.outputs import expect_outputs, report_console, write_output
    from headway.cli.trace_report import trace_parts, trace_picture, trace_values
    from headway.decoding.trace import tree
    from headway.plots.beam import plot_beam

    plot = arguments.plot
    expect_outputs(arguments, plot=tuple(FORMATS))
    trace = _read(Path(arguments.file), arguments.line)
    search = tree(trace, arguments.length_penalty)
    alpha = trace.alpha if arguments.length_penalty is None else arguments.length_penalty
    if arguments.json:
        print(json.dumps(trace_values(trace, search, alpha), ensure_ascii=False, allow_nan=False))
    else:
        console = report_console(plot)
        for part in trace_parts(trace, search, alpha):
            console.print(part)
    if plot is not None:
        if not search.lines:
            raise DataError(f"{arguments.file}: line {arguments.line} has no finished hypothesis to draw")
        kind = FORMATS.get(Path(plot).suffix.lower(), "png")
        write_output(plot, plot_beam(trace_picture(trace, search, alpha), kind=kind), f"a picture in {plot}")


def _read(path: Path, line: int) -> Trace:
    """The trace of an input line, counted from 1. Raises DataError if the file has fewer."""
    from headway.decoding.trace.format import read_traces

    count = 0
    for count, trace in enumerate(islice(read_traces(path), line), 1):
        if count == line:
            return trace
    raise DataError(f"{path}: no line {line}, there are {count}")
