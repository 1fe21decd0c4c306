"""From start and end scores to answers: the best spans of a question over all its windows."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from headway.tasks.question_answering.windows import ContextWindow


@dataclass(frozen=True, slots=True)
class SpanAnswer:
    """A span of a context as an answer."""

    text: str
    start: int  # its first character in the context
    stop: int  # the one after its last
    score: float  # the start's logit plus the end's
    probability: float  # the product of both softmaxes over the tokens of its window

    @property
    def place(self) -> str:
        """Its characters in the context."""
        return f"{self.start}-{self.stop}"

    def to_json(self) -> dict[str, Any]:
        """Its fields."""
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class RankedSpans:
    """The best spans of a question, best first, and the score of no answer: that of the first token, in any window."""

    spans: Sequence[SpanAnswer]
    nothing: float  # the lowest over the windows: a window without the answer says little about the others

    @property
    def gap(self) -> float:
        """How much no answer is above the best span."""
        return self.nothing - self.spans[0].score if self.spans else math.inf


def rank_spans(context: str, windows: Iterable[tuple[ContextWindow, Tensor]], *, top: int, longest: int) -> RankedSpans:
    """The `top` best spans of at most `longest` tokens; windows come with their logits (T, 2), nothing padded.

    A span that several windows have counts once, with its highest score.
    """
    found: dict[tuple[int, int], SpanAnswer] = {}
    nothing = math.inf
    for window, logits_T2 in windows:
        start_T, end_T = logits_T2.float().unbind(-1)
        nothing = min(nothing, float(start_T[0] + end_T[0]))
        log_start, log_end = start_T.log_softmax(0), end_T.log_softmax(0)
        inside = window.context
        scores_SS = start_T[inside, None] + end_T[None, inside]
        count = len(window.spans)
        allowed = torch.ones(count, count, dtype=torch.bool, device=scores_SS.device).triu().tril(longest - 1)
        # Tokens of white space alone stand for no characters: an answer does not begin or end with one.
        blank = torch.tensor([first == last for first, last in window.spans], device=scores_SS.device)
        allowed &= ~blank[:, None] & ~blank[None]
        possible = int(allowed.sum())
        best = scores_SS.masked_fill(~allowed, -math.inf).flatten().topk(min(top, possible))
        for score, place in zip(best.values.tolist(), best.indices.tolist(), strict=True):
            first, last = divmod(place, count)
            begin, end = window.spans[first][0], window.spans[last][1]
            share = float((log_start[window.first + first] + log_end[window.first + last]).exp())
            known = found.get((begin, end))
            if known is None or known.score < score:
                found[begin, end] = SpanAnswer(context[begin:end], begin, end, score, share)
    ranked = sorted(found.values(), key=lambda each: (-each.score, each.start, each.stop))
    return RankedSpans(spans=ranked[:top], nothing=nothing)
