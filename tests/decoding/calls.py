"""Searches with their settings as keywords, for tests that vary them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from headway.decoding.beam import BeamSettings, Hypothesis, Recorder, beam_search
from headway.decoding.constraints import Constraints
from headway.decoding.limits import SequenceLimits
from headway.decoding.sampling import PLAIN, Sampling, sample
from headway.models import EncoderInput


def search(
    model: Any,
    source: EncoderInput | None,
    *,
    start: int | Tensor,
    stop: int,
    max_tokens: int | Tensor = 100,
    prompt_lengths: Tensor | None = None,
    constraints: Constraints | None = None,
    recorder: Recorder | None = None,
    beam: int = 4,
    **settings: Any,
) -> list[list[Hypothesis]]:
    limits = SequenceLimits(start=start, stop=stop, max_tokens=max_tokens, prompt_lengths=prompt_lengths)
    return beam_search(model, source, BeamSettings(width=beam, **settings), limits, constraints, recorder)


def draw(
    model: Any,
    prompt: Tensor,
    *,
    stop: int,
    max_tokens: int,
    prompt_lengths: Tensor | None = None,
    sampling: Sampling = PLAIN,
    source: EncoderInput | None = None,
    constraints: Constraints | None = None,
    seed: int = 0,
    numbers: Sequence[int] | None = None,
    feed_back: bool = True,
) -> list[list[int]]:
    limits = SequenceLimits(start=prompt, stop=stop, max_tokens=max_tokens, prompt_lengths=prompt_lengths)
    return sample(
        model, limits, sampling, source=source, constraints=constraints, seed=seed, numbers=numbers, feed_back=feed_back
    )
