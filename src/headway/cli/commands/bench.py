"""`headway bench`."""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING

from headway.cli import options
from headway.counts import counted
from headway.errors import ConfigError

if TYPE_CHECKING:
    from headway.bench.result import BenchReport
    from headway.cli.console import SafeConsole

HELP = "compare speed with transformers, CTranslate2, timm and torch, and world models with Q-learning"
EXAMPLES = ("headway bench attend", "headway bench world --data world-tmaze")


def add_arguments(parser: ArgumentParser) -> None:
    """Which comparison, and the text it is made on."""
    parser.add_argument("name", nargs="?", metavar="NAME", help="which comparison; without it, the list of them")
    parser.add_argument(
        "--data",
        metavar="SPEC",
        help="parallel text to take batches from (default: generated, of the same lengths); for `world`: a preset",
    )
    parser.add_argument("--source", metavar="LANG", default="en", help="default: %(default)s")
    parser.add_argument("--target", metavar="LANG", default="de", help="default: %(default)s")
    parser.add_argument(
        "--peer",
        metavar="NAME=PYTHON",
        action="append",
        default=[],
        help="for `serve`: the Python of an environment with llama.cpp, vllm or transformers (repeatable)",
    )
    options.add_json(parser, "one object on stdout")


def execute(arguments: Namespace) -> None:
    """Run one comparison, or list them."""
    from headway.bench import BENCHES, Options, bench
    from headway.cli.progress import share_bar

    name = arguments.name
    if name is None:
        print("\n".join(BENCHES))
        return
    if name not in BENCHES:
        raise ConfigError(f"no bench {name!r}, there are: {', '.join(BENCHES)}")
    with share_bar(name) as told:
        report = bench(name)(
            Options(
                data=arguments.data,
                source=arguments.source,
                target=arguments.target,
                peers=_peers(arguments.peer),
                told=told,
            )
        )
    if arguments.json:
        print(json.dumps(report.to_json()))
    else:
        _show(report)


def _peers(given: Sequence[str]) -> dict[str, str]:
    """The Python of each peer. Raises ConfigError for one without."""
    found = {}
    for each in given:
        name, equals, python = each.partition("=")
        if not equals or not python:
            raise ConfigError(f"--peer {each}: expected NAME=PYTHON, as in llama.cpp=/path/to/venv/bin/python")
        found[name] = python
    return found


def _show(report: BenchReport) -> None:
    from headway.cli import render
    from headway.cli.console import SafeConsole

    console = SafeConsole()
    if report.results or not report.facts:
        _show_times(report, console)
    if report.facts:
        console.print(render.facts(report.facts), *render.rendered(report.tables), sep="\n")


def _show_times(report: BenchReport, console: SafeConsole) -> None:
    import platform

    import torch
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("comparison", "ours ms", "peer ms", "times as fast"):
        table.add_column(heading, justify="left" if heading == "comparison" else "right")
    for result in report.results:
        table.add_row(result.name, f"{result.ours * 1e3:.4g}", f"{result.peer * 1e3:.4g}", f"{result.ratio:.2f}")
    console.print(table)
    for figure, value in report.figures.items():
        console.print(f"{figure} {value:.4g}")
    threads = torch.get_num_threads()
    console.print(
        f"torch {torch.__version__}, {counted(threads, 'thread')}, {platform.machine()}; medians of rounds in turns"
    )
