"""A beam search from a prompt, recorded as a trace that can be read without the model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from torch import Tensor, nn

from headway.data.tokenizers import Tokenizer
from headway.decoding.beam import BeamSettings, beam_search
from headway.decoding.limits import SequenceLimits
from headway.decoding.trace import Trace, finished
from headway.decoding.trace.recorder import TraceRecorder
from headway.errors import DataError
from headway.models.stepper import EncoderInput, Stepper


def search_trace(
    model: nn.Module,
    source: EncoderInput | None,
    prompt_1T: Tensor,
    tokenizer: Tokenizer,
    beam: BeamSettings,
    max_tokens: int,
    pieces: Sequence[str] = (),
) -> Trace:
    """The search for what follows a prompt, `pieces` being what the source's places are called."""
    stepper: Stepper[Any] = model  # type: ignore[assignment]
    stop = _stop(tokenizer)
    recorder = TraceRecorder(model, [len(pieces)])
    with recorder:
        limits = SequenceLimits(start=prompt_1T, stop=stop, max_tokens=max_tokens)
        beam_search(stepper, source, beam, limits, recorder=recorder)
    steps = recorder.steps(0)
    words = set[int]().union(*(step.words.tolist() for step in steps))
    trace = Trace(
        source="",
        source_pieces=tuple(pieces),
        pieces={word: tokenizer.token(word) for word in words},
        texts=(),
        beam=beam.width,
        n_best=beam.n_best,
        alpha=beam.alpha,
        penalty=beam.penalty,
        start=int(prompt_1T[0, -1]),
        stop=stop,
        model_steps=(),
        steps=steps,
    )
    return replace(trace, texts=tuple(tokenizer.decode(line.tokens) for line in finished(trace)))


def _stop(tokenizer: Tokenizer) -> int:
    """The stop token; -1, which no token has, for a character vocabulary without one."""
    try:
        return tokenizer.stop
    except DataError:
        return -1
