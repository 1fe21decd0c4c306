"""A search, kept to be read again without its model: what each step looked at, chose and let go.

`replay` gives what the search gave, `rerank` its finished lines under another length penalty, `tree` and `lines` the
parts a picture or a page is drawn from. `TraceRecorder` makes traces, `headway.decoding.trace.format` keeps them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from headway.decoding.beam import Hypothesis, Penalty, length_penalty
from headway.errors import ConfigError

Floats = NDArray[np.float32]
Whole = NDArray[np.int64]
Flags = NDArray[np.bool_]
Levels = NDArray[np.uint8]
Status = Literal["kept", "pruned", "ended", "won"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TraceStep:
    """One step for one source: C candidates, best first; P lines were open before it, W stay open after it.

    A candidate's total is its parent's total plus its own `nats`, added in float32: bitwise, as in the search. A step
    as long as the one before it adds no word: it ends lines that were cut at the greatest length.
    """

    length: int  # tokens in a candidate, this step's included
    norm: float  # what a line that ends here is divided by
    totals: Floats  # (C,) log-probability of the line
    nats: Floats  # (C,) of its last word
    parents: Whole  # (C,) which of the P open lines it goes on from
    words: Whole  # (C,)
    ended: Flags  # (C,)
    kept: Whole  # (W,) index into C, in slot order
    levels: Levels | None  # (P, S) attention over the source in 255ths of `scales`; None for a model without
    scales: Floats | None  # (P,) each row's largest weight

    @property
    def attention(self) -> Floats | None:
        """(P, S) what each open line looked at in the source when its candidates were weighed."""
        if self.levels is None or self.scales is None:
            return None
        return self.levels.astype(np.float32) * (self.scales / np.float32(255))[:, None]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Trace:
    """The search for one source, with all it takes to read it alone."""

    source: str
    source_pieces: tuple[str, ...]  # what the model read, its stop token last
    pieces: Mapping[int, str]  # of every word in the steps, and of start and stop
    texts: tuple[str, ...]  # of the finished lines, in the order they finished
    beam: int
    n_best: int
    alpha: float
    penalty: Penalty
    start: int
    stop: int
    model_steps: tuple[int, ...]  # the checkpoint, or those whose mean was used
    steps: tuple[TraceStep, ...]  # none for an empty source


@dataclass(frozen=True, slots=True)
class Node:
    """A candidate's word in the tree; `won` is every word of the best line, else what became of it at its step."""

    parent: int | None  # index of a node; None for a first word
    step: int
    slot: int  # its parent's place among the open lines: the step's row of attention
    word: int
    piece: str
    nats: float
    total: float
    status: Status


@dataclass(frozen=True, slots=True)
class Line:
    """A finished line; `length` is what the penalty counts, the stop token included."""

    nodes: tuple[int, ...]  # of the tree, first word first
    tokens: tuple[int, ...]  # without the stop token
    text: str
    length: int
    log_probability: float
    norm: float
    stopped: bool  # by the stop token; False: cut at the greatest length

    @property
    def score(self) -> float:
        """The log-probability over the length penalty."""
        return self.log_probability / self.norm


@dataclass(frozen=True, slots=True)
class Tree:
    """Every candidate of a search as a node, and the finished lines as paths, each once, best first."""

    nodes: tuple[Node, ...]
    lines: tuple[Line, ...]


def replay(trace: Trace) -> list[Hypothesis]:
    """What the search gave, token for token and score for score; where nothing could follow the source, nothing."""
    found = [_hypothesis(line) for line in lines(trace)][: trace.n_best]
    return found or [Hypothesis([], -math.inf, -math.inf, False) for _ in trace.steps[:1]]


def rerank(trace: Trace, alpha: float, penalty: Penalty) -> list[Hypothesis]:
    """Every finished line, best first under another length penalty. Raises ConfigError for one that is none."""
    return [_hypothesis(line) for line in lines(trace, alpha, penalty)]


def lines(trace: Trace, alpha: float | None = None, penalty: Penalty | None = None) -> tuple[Line, ...]:
    """Every finished line, best first, under the trace's own penalty unless told otherwise."""
    return tree(trace, alpha, penalty).lines


def finished(trace: Trace) -> list[Line]:
    """Every finished line in the order they finished, that of `texts`."""
    return _walk(trace)[1]


def tree(trace: Trace, alpha: float | None = None, penalty: Penalty | None = None) -> Tree:
    """The whole search; which line won is decided by the trace's own penalty unless told otherwise."""
    nodes, found = _walk(trace)
    if alpha is not None or penalty is not None:
        new_alpha, kind = trace.alpha if alpha is None else alpha, penalty or trace.penalty
        found = [replace(line, norm=checked_penalty(line.length, new_alpha, kind)) for line in found]
    ranked: dict[tuple[int, ...], Line] = {}
    for line in sorted(found, key=lambda line: -line.score):  # stable, as the search's own sort is
        ranked.setdefault(line.tokens, line)  # groups of lines may find the same one
    best = tuple(ranked.values())
    for index in best[0].nodes if best else ():
        nodes[index] = replace(nodes[index], status="won")
    return Tree(tuple(nodes), best)


def alignment(trace: Trace, line: Line) -> Floats | None:
    """(words, S) what a line looked at in the source for each of its words, the stop token's row last if it has one."""
    nodes, _ = _walk(trace)
    rows = []
    for node in (nodes[index] for index in line.nodes):
        seen = trace.steps[node.step].attention
        if seen is None:
            return None
        rows.append(seen[node.slot])
    return np.stack(rows) if rows else np.zeros((0, len(trace.source_pieces)), np.float32)


def checked_penalty(length: int, alpha: float, penalty: Penalty) -> float:
    """The length penalty. Raises ConfigError where it is no positive number."""
    if penalty not in get_args(Penalty):
        raise ConfigError(f"penalty={penalty!r}, allowed: {', '.join(get_args(Penalty))}")
    try:
        norm = length_penalty(length, alpha, penalty)
    except OverflowError:
        norm = math.inf
    if not 0 < norm < math.inf:  # a NaN is neither
        raise ConfigError(f"length penalty {alpha} divides {length} tokens by {norm}, allowed: a number above 0")
    return norm


def _hypothesis(line: Line) -> Hypothesis:
    return Hypothesis(list(line.tokens), line.log_probability, line.score, line.stopped)


def _walk(trace: Trace) -> tuple[list[Node], list[Line]]:
    """Nodes step by step, and lines in the order they finished; candidates that could not be are left out."""
    nodes: list[Node] = []
    found: list[Line] = []
    slots: list[int | None] = [None]  # the node of each open line; before the first step there is none
    before = 0
    for number, step in enumerate(trace.steps):
        if step.length == before:
            made = [slots[parent] for parent in step.parents.tolist()]
        else:
            made = _grow(nodes, trace, number, slots)
        for index in (made[n] for n in np.flatnonzero(step.ended)):
            assert index is not None
            nodes[index] = replace(nodes[index], status="ended")
            text = trace.texts[len(found)] if trace.texts else ""
            found.append(_line(nodes, index, step, trace.stop, text))
        slots, before = [made[n] for n in step.kept.tolist()], step.length
        for index in slots:  # a beam wider than its candidates keeps the ended ones too, without a probability
            if index is not None and nodes[index].status != "ended":
                nodes[index] = replace(nodes[index], status="kept")
    return nodes, found


def _grow(nodes: list[Node], trace: Trace, number: int, slots: list[int | None]) -> list[int | None]:
    """A node for each candidate of a step with a probability at all; where each of them is."""
    step, made = trace.steps[number], list[int | None]()
    columns = (step.parents.tolist(), step.words.tolist(), step.nats.tolist(), step.totals.tolist())
    for slot, word, nats, total in zip(*columns, strict=True):
        if total == -math.inf:
            made.append(None)
            continue
        made.append(len(nodes))
        nodes.append(Node(slots[slot], number, slot, word, trace.pieces[word], nats, total, "pruned"))
    return made


def _line(nodes: list[Node], last: int, step: TraceStep, stop: int, text: str) -> Line:
    path: list[int] = []
    index: int | None = last
    while index is not None:
        path.append(index)
        index = nodes[index].parent
    path.reverse()
    words = [nodes[index].word for index in path]
    stopped = words[-1] == stop
    tokens = tuple(words[:-1] if stopped else words)
    return Line(tuple(path), tokens, text, step.length, nodes[last].total, step.norm, stopped)
