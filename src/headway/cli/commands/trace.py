"""`headway trace`."""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from headway.cli import report as show
from headway.decoding.trace import Node, Trace, Tree, alignment, tree
from headway.decoding.trace.format import read_traces
from headway.errors import ConfigError, DataError
from headway.plots.beam import BeamPicture, display_text, plot_beam, printable
from headway.storage.commit import commit_file

KINDS: dict[str, Literal["png", "svg"]] = {".png": "png", ".svg": "svg"}
STYLES = {"won": "bold", "ended": "", "kept": "", "pruned": "dim"}
MARKS = {"won": "*", "ended": "", "kept": "", "pruned": ""}  # the winner shows without colours too


def run(arguments: Namespace) -> None:
    """Show one line's search, ranked with another length penalty if one is given."""
    kind = _kind(arguments.plot)
    trace = _read(Path(arguments.file), arguments.line)
    found = tree(trace, arguments.length_penalty)
    alpha = trace.alpha if arguments.length_penalty is None else arguments.length_penalty
    if arguments.json:
        print(json.dumps(_values(trace, found, alpha), ensure_ascii=False, allow_nan=False))
    else:
        console = Console(highlight=False)
        for part in _shown(trace, found, alpha):
            console.print(part)
    if kind is not None:
        if not found.lines:
            raise DataError(f"{arguments.file}: line {arguments.line} has no finished line to draw")
        commit_file(Path(arguments.plot), plot_beam(_picture(trace, found, alpha), kind=kind))
        print(f"headway: a picture in {arguments.plot}", file=sys.stderr)


def _kind(plot: str | None) -> Literal["png", "svg"] | None:
    if plot is None:
        return None
    ending = Path(plot).suffix.lower()
    if ending not in KINDS:
        raise ConfigError(f"--plot {plot}, allowed: a name that ends in .png or .svg")
    return KINDS[ending]


def _read(path: Path, line: int) -> Trace:
    count = 0
    for count, trace in enumerate(islice(read_traces(path), line), 1):
        if count == line:
            return trace
    raise DataError(f"{path}: no line {line}, there are {count}")


def _settings(trace: Trace, alpha: float) -> str:
    steps = ", ".join(map(str, trace.model_steps)) or "unknown"
    return f"beam {trace.beam}, {trace.penalty} length penalty {alpha:g}, model of step {steps}"


def _values(trace: Trace, found: Tree, alpha: float) -> dict[str, Any]:
    """Everything there is to draw, as plain values."""
    seen = alignment(trace, found.lines[0]) if found.lines else None
    return {
        "source": trace.source,
        "source_pieces": list(trace.source_pieces),
        "beam": trace.beam,
        "penalty": trace.penalty,
        "alpha": alpha,
        "model_steps": list(trace.model_steps),
        "lines": [
            {
                "text": line.text,
                "score": line.score,
                "log_probability": line.log_probability,
                "length": line.length,
                "tokens": list(line.tokens),
                "nodes": list(line.nodes),
            }
            for line in found.lines
        ],
        "nodes": [
            {"parent": node.parent, "step": node.step, "word": node.word, "piece": node.piece, "nats": node.nats,
             "total": node.total, "status": node.status}
            for node in found.nodes
        ],
        "attention": None if seen is None else [[round(float(weight), 4) for weight in row] for row in seen],
    }  # fmt: skip


def _shown(trace: Trace, found: Tree, alpha: float) -> list[RenderableType]:
    winner = _whole(found.lines[0].text) if found.lines else "(nothing: the line is empty)"
    facts = show.facts({"source": _whole(trace.source), "winner": winner, "search": _settings(trace, alpha)})
    if not found.lines:
        return [facts]
    before = {line.nodes: rank for rank, line in enumerate(tree(trace).lines, 1)}
    moved = alpha != trace.alpha
    rows = [
        [str(rank), *([str(before[line.nodes])] if moved else []), f"{line.score:.4f}", f"{line.log_probability:.4f}",
         f"{line.norm:.4f}", str(line.length), _whole(line.text)]
        for rank, line in enumerate(found.lines, 1)
    ]  # fmt: skip
    header = ["rank", *(["was"] if moved else []), "score", "log-probability", "penalty", "tokens", "text"]
    table = show.figures(header, rows)
    table.columns[-1].justify, table.columns[-1].no_wrap = "left", False
    told = "open line it goes on from : word (log-probability of the line so far); * is the winner's"
    return [
        facts,
        show.section("finished lines", table),
        show.section("steps", _steps(trace, found)),
        show.note(told, "dim"),
    ]


def _whole(text: str) -> str:
    return printable(text, len(text) + 1)


def _steps(trace: Trace, found: Tree) -> Table:
    """A row a step: what stayed open, what ended, and what was let go."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("", justify="right", no_wrap=True)
    for name in ("kept", "ended", "pruned"):
        table.add_column(name, overflow="fold")
    last = {line.nodes[-1] for line in found.lines}
    for number, step in enumerate(trace.steps):
        here = [(index, node) for index, node in enumerate(found.nodes) if node.step == number]
        ended = [node for index, node in here if index in last]
        pruned = [node for index, node in here if index not in last and node.status == "pruned"]
        kept = [node for index, node in here if index not in last and node.status != "pruned"]
        if here:
            table.add_row(str(step.length), *map(_words, (kept, ended, pruned)))
    return table


def _words(nodes: list[Node]) -> Text:
    each = (
        Text(
            f"{node.slot + 1}:{display_text(node.piece)}{MARKS[node.status]}({node.total:.2f})",
            style=STYLES[node.status],
        )
        for node in nodes
    )
    return Text("  ").join(each)


def _picture(trace: Trace, found: Tree, alpha: float) -> BeamPicture:
    told = "on an edge the log-probability of its word, in a box rank and score; faint: pruned"
    return BeamPicture(
        title=f"{printable(trace.source, 60)}  →  {printable(found.lines[0].text, 60)}",
        subtitle=f"{_settings(trace, alpha)}; {told}",
        nodes=found.nodes,
        finished={line.nodes[-1]: (rank, line.score) for rank, line in enumerate(found.lines, 1)},
        source_pieces=trace.source_pieces,
        alignment=alignment(trace, found.lines[0]),
    )
