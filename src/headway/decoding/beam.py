"""Beam search on any Stepper: the best continuations of each source, scored under a named length penalty."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Protocol

import torch
from torch import Tensor

from headway.errors import ConfigError
from headway.models.stepper import Source, Stepper

Penalty = Literal["gnmt", "mean"]


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """A finished line: its tokens without the stop token, its log-probability with it, and its score."""

    tokens: list[int]
    log_probability: float
    score: float
    stopped: bool = True  # by the stop token; False: cut at the greatest length


@dataclass(frozen=True, slots=True)
class Step:
    """What one step of a search looked at and chose: R rows still open, C candidates each, best first.

    Lines cut at the greatest length come in one step more, of the same `length`: its candidates are the open lines
    themselves, each with its last word once again.
    """

    rows: Tensor  # (R,) which source rows these are
    length: int  # tokens in a candidate, this step's included
    totals: Tensor  # (R, C) log-probability of each candidate line
    parents: Tensor  # (R, C) which of the row's open lines (slot of the step before) it goes on from
    words: Tensor  # (R, C)
    ended: Tensor  # (R, C) bool: collected as finished here
    kept: Tensor  # (R, W) index into C of the lines that stay open, in slot order
    norm: float  # what a line that ends here is divided by


class Recorder(Protocol):
    """Whoever wants to see a search step by step."""

    def step(self, step: Step) -> None:
        """Called once a step, after the model and before the lines are moved."""
        ...


def length_penalty(length: int, alpha: float, kind: Penalty) -> float:
    """What a log-probability is divided by: ((5 + n)/6)^α as in GNMT and the 2017 paper, or n^α as in fairseq."""
    return ((5 + length) / 6) ** alpha if kind == "gnmt" else float(length**alpha)


@torch.no_grad()
def beam_search(
    model: Stepper[Any],
    source: Source,
    *,
    start: int,
    stop: int,
    beam: int = 4,
    max_tokens: int = 100,
    alpha: float = 0.6,
    penalty: Penalty = "gnmt",
    n_best: int = 1,
    recorder: Recorder | None = None,
) -> list[list[Hypothesis]]:
    """The `n_best` lines for each source row, best first; beam 1 is greedy search.

    A row ends when `beam` of its lines have ended (fairseq's rule); lines still open at `max_tokens` end there.
    """
    if max_tokens < 1 or penalty not in ("gnmt", "mean"):
        raise ConfigError(f"max_tokens={max_tokens}, penalty={penalty!r}: at least 1, and gnmt or mean")
    if beam < 1 or not 1 <= n_best <= beam:
        raise ConfigError(f"beam={beam} and n_best={n_best}: beam must be >= 1 and n_best between 1 and beam")
    rows, device = len(source.tokens), source.tokens.device
    state = model.start(source, capacity=max_tokens + 1)
    finished: list[list[Hypothesis]] = [[] for _ in range(rows)]
    # Each open row keeps `width` lines side by side; the first step grows them from one.
    open_rows = torch.arange(rows, device=device)
    scores = torch.zeros(rows, 1, device=device)
    lines = torch.empty(rows, 0, dtype=torch.long, device=device)
    last = torch.full((rows, 1), start, device=device)
    for length in range(1, max_tokens + 1):
        logits, state = model.extend(last, state)
        step = logits[:, -1].float().log_softmax(-1)
        count, width, vocab = len(open_rows), scores.shape[1], step.shape[1]
        totals = (scores.unsqueeze(-1) + step.view(count, width, vocab)).flatten(1)
        # Twice the beam: even if every line's best word is the stop token, `beam` lines stay open.
        best, index = totals.topk(min(2 * beam, totals.shape[1]))
        parent, word = index // vocab, index % vocab
        stops = word == stop
        norm = length_penalty(length, alpha, penalty)
        base = torch.arange(count, device=device).unsqueeze(-1) * width
        ends = stops & (best > -torch.inf)
        ends[:, beam:] = False  # only candidates among the first `beam` may end
        _collect(finished, open_rows, lines, base + parent, best, ends, norm, stopped=True)
        keep = best.masked_fill(stops, -torch.inf).topk(min(beam, best.shape[1])).indices
        scores = best.masked_fill(stops, -torch.inf).gather(1, keep)
        if recorder is not None:
            recorder.step(Step(open_rows, length, best, parent, word, ends, keep, norm))
        chosen, word = (base + parent).gather(1, keep), word.gather(1, keep)
        going = [n for n, row in enumerate(open_rows.tolist()) if len(finished[row]) < beam]
        if not going:
            break
        alive = torch.tensor(going, device=device)
        scores, chosen, word, open_rows = scores[alive], chosen[alive], word[alive], open_rows[alive]
        lines = torch.cat([lines[chosen.flatten()], word.flatten().unsqueeze(-1)], 1)
        state = model.select(state, chosen.flatten())
        last = word.flatten().unsqueeze(-1)
        if length == max_tokens:
            everything = torch.arange(scores.numel(), device=device).view_as(scores)
            ends, slots = scores > -torch.inf, everything - everything[:, :1]
            _collect(finished, open_rows, lines, everything, scores, ends, norm, stopped=False)
            if recorder is not None:
                recorder.step(Step(open_rows, length, scores, slots, word, ends, slots[:, :0], norm))
    return [sorted(row, key=lambda line: -line.score)[:n_best] for row in finished]


def _collect(
    finished: list[list[Hypothesis]],
    open_rows: Tensor,
    lines: Tensor,
    which: Tensor,
    totals: Tensor,
    ends: Tensor,
    norm: float,
    *,
    stopped: bool,
) -> None:
    """Move lines that end here to their row's finished ones."""
    for row, candidate in ends.nonzero().tolist():
        total = float(totals[row, candidate])
        tokens = lines[int(which[row, candidate])].tolist()
        finished[int(open_rows[row])].append(Hypothesis(tokens, total, total / norm, stopped))
