"""`headway bench`."""

from __future__ import annotations

import json
import platform
from argparse import Namespace

import torch
from rich.console import Console
from rich.table import Table

from headway.bench import BENCHES, Options, bench
from headway.errors import ConfigError


def run(arguments: Namespace) -> None:
    """Run one comparison, or say which there are."""
    name, as_json = arguments.name, arguments.json
    if name is None:
        print("\n".join(BENCHES))
        return
    if name not in BENCHES:
        raise ConfigError(f"no bench {name!r}, there are: {', '.join(BENCHES)}")
    options = Options(data=arguments.data, source=arguments.source, target=arguments.target)
    report = bench(name)(options)
    if as_json:
        print(json.dumps(report.to_json()))
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("comparison", "ours ms", "peer ms", "times as fast"):
        table.add_column(heading, justify="left" if heading == "comparison" else "right")
    for result in report.results:
        table.add_row(result.name, f"{result.ours * 1e3:.4g}", f"{result.peer * 1e3:.4g}", f"{result.ratio:.2f}")
    console = Console(highlight=False)
    console.print(table)
    for figure, value in report.figures.items():
        console.print(f"{figure} {value:.4g}")
    threads = torch.get_num_threads()
    console.print(f"torch {torch.__version__}, {threads} threads, {platform.machine()}; medians of rounds in turns")
