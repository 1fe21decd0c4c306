"""A beam search from a prompt, recorded as a trace that can be read without the model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor, nn

from headway.data.tokenizers import Tokenizer
from headway.decoding.beam import Penalty, beam_search
from headway.decoding.trace import Trace, finished
from headway.decoding.trace.recorder import TraceRecorder
from headway.errors import DataError
from headway.models.stepper import Source, Stepper


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchSettings:
    """How wide a search is, how far it goes and its length penalty."""

    beam: int
    max_tokens: int
    alpha: float
    penalty: Penalty = "gnmt"


def search_trace(
    model: nn.Module,
    source: Source | None,
    prompt_1T: Tensor,
    tokenizer: Tokenizer,
    search: SearchSettings,
    pieces: Sequence[str] = (),
) -> Trace:
    """The search for what follows a prompt, `pieces` being what the source's places are called."""
    stepper: Stepper[Any] = model  # type: ignore[assignment]
    stop = _stop(tokenizer)
    recorder = TraceRecorder(model, [len(pieces)])
    with recorder:
        beam_search(
            stepper, source, start=prompt_1T, stop=stop, beam=search.beam, max_tokens=search.max_tokens,
            alpha=search.alpha, penalty=search.penalty, recorder=recorder,
        )  # fmt: skip
    steps = recorder.steps(0)
    words = set[int]().union(*(step.words.tolist() for step in steps))
    trace = Trace(
        source="",
        source_pieces=tuple(pieces),
        pieces={word: tokenizer.token(word) for word in words},
        texts=(),
        beam=search.beam,
        n_best=1,
        alpha=search.alpha,
        penalty=search.penalty,
        start=int(prompt_1T[0, -1]),
        stop=stop,
        model_steps=(),
        steps=steps,
    )
    return replace(trace, texts=tuple(tokenizer.decode(line.tokens) for line in finished(trace)))


def _stop(tokenizer: Tokenizer) -> int:
    """The token that ends a text, or one there is none of: characters may do without."""
    try:
        return tokenizer.stop
    except DataError:
        return -1
