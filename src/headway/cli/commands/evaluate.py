"""`headway evaluate`."""

from __future__ import annotations

import json
import math
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headway.cli import options
from headway.counts import counted

if TYPE_CHECKING:
    from headway.tasks.report import Report

HELP = "the metrics of the run's task on a split"
EXAMPLES = (
    "headway evaluate runs/en-de                                BLEU, chrF, by length, by position, samples",
    "headway evaluate runs/en-de --split val --beam 1 --json    one flat object for machines",
    "headway evaluate runs/en-de --compare runs/other           is the other one really better?",
    "headway evaluate runs/en-de --out said.txt --plot gap.png",
    "headway evaluate runs/gpt-char --data book.txt --stride 1  each token after a full context",
    "headway evaluate runs/gpt-char --lengths 32,64,128,256     loss by length, beyond training too",
)


def add_arguments(parser: ArgumentParser) -> None:
    """Which data, how to decode, and what to write."""
    options.add_run(parser)
    options.add_adapter(parser)
    parser.add_argument("--data", metavar="SPEC", help="other data than the run's own")
    parser.add_argument("--text", metavar="COLUMN", help="of --data, a table: the column with the texts")
    parser.add_argument("--text2", metavar="COLUMN", help="of --data, a table of pairs: the column of the second texts")
    parser.add_argument("--label", metavar="COLUMN", help="of --data, a table: the column with the labels")
    parser.add_argument("--split", metavar="NAME", help="default: test if there is one, else val")
    parser.add_argument(
        "--beam", type=options.positive, help="of translations, captions or transcripts (default: the recipe's)"
    )
    options.add_precision(parser)
    parser.add_argument(
        "--lengths", metavar="A,B,…", help="loss in windows of these lengths in tokens, beyond the training length too"
    )
    parser.add_argument(
        "--stride",
        type=options.positive,
        metavar="N",
        help="of a language model's sliding windows (default: half a window)",
    )
    parser.add_argument("--metric", choices=("rouge",), help="a further metric of texts: rouge, F1 of words and orders")
    parser.add_argument("--compare", metavar="RUN2", help="paired bootstrap with another translation run")
    parser.add_argument(
        "--out",
        metavar="FILE",
        help="write the translations, classes, captions or transcripts, one per line; - for stdout",
    )
    parser.add_argument(
        "--plot",
        metavar="FILE.png",
        help="accuracy by position, loss by length, the confusion matrix, or numbers beside the true ones",
    )
    options.add_json(parser)


def execute(arguments: Namespace) -> None:
    """Print the metrics of a split."""
    from headway.cli import render
    from headway.cli.loading import load_run
    from headway.cli.outputs import PNG, TEXT, expect_outputs, report_console
    from headway.cli.progress import progress_lines
    from headway.metrics.loss_by_length import parse_lengths
    from headway.runs.evaluate import check_options

    lengths = None if arguments.lengths is None else parse_lengths(arguments.lengths)
    expect_outputs(arguments, out=TEXT, plot=PNG)
    found = load_run(arguments)
    files = [name for name in ("out", "plot") if getattr(arguments, name) is not None]
    if lengths is not None:  # loss by length can be drawn whatever the task
        files = [name for name in files if name != "plot"]
    check_options(found.pipeline, files)
    report = found.evaluate(
        arguments.data,
        split=arguments.split,
        beam=arguments.beam,
        stride=arguments.stride,
        lengths=lengths,
        metric=arguments.metric,
        compare=arguments.compare,
        text=arguments.text,
        text2=arguments.text2,
        label=arguments.label,
        progress=progress_lines(),
    )
    _write(report, arguments, title=f"{Path(arguments.run).name}, {report.split}")
    steps = ",".join(map(str, found.steps))
    if arguments.json:
        print(json.dumps(_strict({"split": report.split, "steps": steps, **report.values}), allow_nan=False))
        return
    each = " and ".join(f"{step:,}" for step in found.steps)
    mean = f"the mean of steps {each}" if len(found.steps) > 1 else f"step {each}"
    console = report_console(arguments.out, arguments.plot)
    about = {"run": f"{arguments.run} ({found.task.title})", "split": report.split, "checkpoint": mean}
    console.print(render.facts(about))
    console.print(*render.rendered(report.sections), sep="\n")


def _write(report: Report, arguments: Namespace, *, title: str) -> None:
    """Write the requested files and name them on stderr."""
    from headway.cli.outputs import write_output

    if arguments.out is not None:
        # splitlines knows more line ends than a scorer does; each output must stay one line for all of them.
        lines = "".join(" ".join(line.splitlines()) + "\n" for line in report.outputs)
        write_output(arguments.out, lines, f"{counted(len(report.outputs), 'line')} in {arguments.out}")
    if arguments.plot is not None and report.plot is not None:
        write_output(arguments.plot, report.plot(title), f"a picture in {arguments.plot}")


def _strict(values: Mapping[str, Any]) -> dict[str, Any]:
    """The same with null for what JSON has no number for."""
    return {
        key: None if isinstance(value, float) and not math.isfinite(value) else value for key, value in values.items()
    }
