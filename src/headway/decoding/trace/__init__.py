"""Traces of beam search: every step's candidates, readable without the model.

`replay` gives the search's own result, `rerank` its finished hypotheses under another length penalty, `tree` and
`hypotheses` what a plot or a page is drawn from. `TraceRecorder` records traces, `headway.decoding.trace.format`
reads and writes them.
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
    """One step for one source: C candidates, best first; P hypotheses were open before it, W stay open after it.

    A candidate's total is its parent's total plus its own `nats`, added in float32: bitwise, as in the search. A step
    of the same length as the one before adds no token: it ends the hypotheses that were cut at the maximum length.
    """

    length: int  # tokens in a candidate, this step's included
    norm: float  # length penalty of a hypothesis that ends here
    totals: Floats  # (C,) log-probability of the hypothesis
    nats: Floats  # (C,) log-probability of its last token
    parents: Whole  # (C,) which of the P open hypotheses it extends
    words: Whole  # (C,) its last token
    ended: Flags  # (C,)
    kept: Whole  # (W,) index into C, in slot order
    levels: Levels | None  # (P, S) attention over the source in 255ths of `scales`; None for a model without
    scales: Floats | None  # (P,) each row's largest weight

    @property
    def attention(self) -> Floats | None:
        """(P, S) the attention of each open hypothesis over the source, when its candidates were scored."""
        if self.levels is None or self.scales is None:
            return None
        return self.levels.astype(np.float32) * (self.scales / np.float32(255))[:, None]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Trace:
    """The search for one source, self-contained."""

    source: str
    source_pieces: tuple[str, ...]  # the tokens the model read, the stop token last
    pieces: Mapping[int, str]  # the text of every token in the steps, and of start and stop
    texts: tuple[str, ...]  # of the finished hypotheses, in the order they finished
    beam: int
    n_best: int
    alpha: float
    penalty: Penalty
    start: int
    stop: int
    model_steps: tuple[int, ...]  # the checkpoint's training step, or those of averaged checkpoints
    steps: tuple[TraceStep, ...]  # none for an empty source


@dataclass(frozen=True, slots=True)
class Node:
    """A candidate in the tree; every token of the best hypothesis has the status `won`."""

    parent: int | None  # index of a node; None for a first token
    step: int
    slot: int  # its parent's place among the open hypotheses: the step's row of attention
    word: int
    piece: str
    nats: float
    total: float
    status: Status


@dataclass(frozen=True, slots=True)
class TracedHypothesis:
    """A finished hypothesis; `length` counts the stop token, as the length penalty does."""

    nodes: tuple[int, ...]  # of the tree, first token first
    tokens: tuple[int, ...]  # without the stop token
    text: str
    length: int
    log_probability: float
    norm: float
    stopped: bool  # by the stop token; False: cut at the maximum length

    @property
    def score(self) -> float:
        """The log-probability divided by the length penalty."""
        return self.log_probability / self.norm


@dataclass(frozen=True, slots=True)
class Tree:
    """Every candidate of a search as a node, and the finished hypotheses as paths, each once, best first."""

    nodes: tuple[Node, ...]
    hypotheses: tuple[TracedHypothesis, ...]

    @property
    def lines(self) -> tuple[TracedHypothesis, ...]:
        """Older name of `hypotheses`."""
        return self.hypotheses


def replay(trace: Trace) -> list[Hypothesis]:
    """The search's own result, equal in tokens and scores; an empty hypothesis where none was finished."""
    found = [_hypothesis(each) for each in hypotheses(trace)][: trace.n_best]
    return found or [Hypothesis([], -math.inf, -math.inf, False) for _ in trace.steps[:1]]


def rerank(trace: Trace, alpha: float, penalty: Penalty) -> list[Hypothesis]:
    """Every finished hypothesis, best first under another length penalty. Raises ConfigError for an invalid one."""
    return [_hypothesis(each) for each in hypotheses(trace, alpha, penalty)]


def hypotheses(
    trace: Trace, alpha: float | None = None, penalty: Penalty | None = None
) -> tuple[TracedHypothesis, ...]:
    """Every finished hypothesis, best first, under the trace's own length penalty unless another is given."""
    return tree(trace, alpha, penalty).hypotheses


lines = hypotheses  # older name


def finished(trace: Trace) -> list[TracedHypothesis]:
    """Every finished hypothesis in the order they finished, that of `texts`."""
    return _walk(trace)[1]


def tree(trace: Trace, alpha: float | None = None, penalty: Penalty | None = None) -> Tree:
    """The whole search; the best hypothesis is that of the trace's own length penalty unless another is given."""
    nodes, found = _walk(trace)
    if alpha is not None or penalty is not None:
        new_alpha, kind = trace.alpha if alpha is None else alpha, penalty or trace.penalty
        found = [replace(each, norm=checked_penalty(each.length, new_alpha, kind)) for each in found]
    ranked: dict[tuple[int, ...], TracedHypothesis] = {}
    for each in sorted(found, key=lambda each: -each.score):  # stable, as the search's own sort
        ranked.setdefault(each.tokens, each)  # groups may find the same hypothesis
    best = tuple(ranked.values())
    for index in best[0].nodes if best else ():
        nodes[index] = replace(nodes[index], status="won")
    return Tree(tuple(nodes), best)


def alignment(trace: Trace, hypothesis: TracedHypothesis) -> Floats | None:
    """(tokens, S) a hypothesis's attention over the source for each of its tokens, the stop token included.

    None for a model without attention.
    """
    nodes, _ = _walk(trace)
    rows = []
    for node in (nodes[index] for index in hypothesis.nodes):
        seen = trace.steps[node.step].attention
        if seen is None:
            return None
        rows.append(seen[node.slot])
    return np.stack(rows) if rows else np.zeros((0, len(trace.source_pieces)), np.float32)


def checked_penalty(length: int, alpha: float, penalty: Penalty) -> float:
    """The length penalty. Raises ConfigError unless it is positive and finite."""
    if penalty not in get_args(Penalty):
        raise ConfigError(f"penalty={penalty!r}, allowed: {', '.join(get_args(Penalty))}")
    try:
        norm = length_penalty(length, alpha, penalty)
    except OverflowError:
        norm = math.inf
    if not 0 < norm < math.inf:  # also false for NaN
        raise ConfigError(f"length penalty {alpha} divides {length} tokens by {norm}, allowed: a number above 0")
    return norm


def _hypothesis(traced: TracedHypothesis) -> Hypothesis:
    return Hypothesis(list(traced.tokens), traced.log_probability, traced.score, traced.stopped)


def _walk(trace: Trace) -> tuple[list[Node], list[TracedHypothesis]]:
    """Nodes step by step, and hypotheses in the order they finished; candidates of probability 0 are left out."""
    nodes: list[Node] = []
    found: list[TracedHypothesis] = []
    slots: list[int | None] = [None]  # the node of each open hypothesis; None before the first step
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
            found.append(_path(nodes, index, step, trace.stop, text))
        slots, before = [made[n] for n in step.kept.tolist()], step.length
        for index in slots:  # a beam wider than its candidates also keeps ended ones, with probability 0
            if index is not None and nodes[index].status != "ended":
                nodes[index] = replace(nodes[index], status="kept")
    return nodes, found


def _grow(nodes: list[Node], trace: Trace, number: int, slots: list[int | None]) -> list[int | None]:
    """Append a node for each candidate of a step with a probability above 0; the index of each, or None."""
    step, made = trace.steps[number], list[int | None]()
    columns = (step.parents.tolist(), step.words.tolist(), step.nats.tolist(), step.totals.tolist())
    for slot, word, nats, total in zip(*columns, strict=True):
        if total == -math.inf:
            made.append(None)
            continue
        made.append(len(nodes))
        nodes.append(Node(slots[slot], number, slot, word, trace.pieces[word], nats, total, "pruned"))
    return made


def _path(nodes: list[Node], last: int, step: TraceStep, stop: int, text: str) -> TracedHypothesis:
    """The hypothesis whose last token is this node."""
    path: list[int] = []
    index: int | None = last
    while index is not None:
        path.append(index)
        index = nodes[index].parent
    path.reverse()
    words = [nodes[index].word for index in path]
    stopped = words[-1] == stop
    tokens = tuple(words[:-1] if stopped else words)
    return TracedHypothesis(tuple(path), tokens, text, step.length, nodes[last].total, step.norm, stopped)
