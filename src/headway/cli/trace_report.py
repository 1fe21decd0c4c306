"""What `headway trace` shows of a search: tables for people, values for machines, a picture."""

from __future__ import annotations

from typing import Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from headway.cli import render as show
from headway.decoding.trace import Node, Trace, Tree, alignment, tree
from headway.plots.beam import BeamPicture, display_text, printable

STYLES = {"won": "bold", "ended": "", "kept": "", "pruned": "dim"}
MARKS = {"won": "*", "ended": "", "kept": "", "pruned": ""}  # the winner shows without colours too


def _settings(trace: Trace, alpha: float) -> str:
    steps = ", ".join(map(str, trace.model_steps)) or "unknown"
    return f"beam {trace.beam}, {trace.penalty} length penalty {alpha:g}, model of step {steps}"


def trace_values(trace: Trace, found: Tree, alpha: float) -> dict[str, Any]:
    """Everything there is to draw, as plain values for JSON."""
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


def trace_parts(trace: Trace, found: Tree, alpha: float) -> list[RenderableType]:
    """Tables of the finished hypotheses and of each step."""
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
    told = "hypothesis it extends : word (log-probability of the hypothesis so far); * is the winner's"
    return [
        facts,
        show.section("finished hypotheses", table),
        show.section("steps", _steps(trace, found)),
        show.note(told, "dim"),
    ]


def _whole(text: str) -> str:
    return printable(text, len(text) + 1)


def _steps(trace: Trace, found: Tree) -> Table:
    """A row a step: the candidates that stayed open, ended and were pruned."""
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


def trace_picture(trace: Trace, found: Tree, alpha: float) -> BeamPicture:
    """The tree and the alignment, to draw."""
    told = "on an edge the log-probability of its word, in a box rank and score; faint: pruned"
    return BeamPicture(
        title=f"{printable(trace.source, 60)}  →  {printable(found.lines[0].text, 60)}",
        subtitle=f"{_settings(trace, alpha)}; {told}",
        nodes=found.nodes,
        finished={line.nodes[-1]: (rank, line.score) for rank, line in enumerate(found.lines, 1)},
        source_pieces=trace.source_pieces,
        alignment=alignment(trace, found.lines[0]),
    )
