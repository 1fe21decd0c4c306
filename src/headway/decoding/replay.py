"""Generation on a GPU with each step replayed as a CUDA graph, behind `sample` and `stream`: the same tokens, sooner.

A step of GPT-2 launches several hundred kernels, which takes many times as long as running them. Recording it costs
about as much as four steps, so that short generations are not recorded.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from headway.decoding.cuda_graph import GraphDecoder
from headway.decoding.events import search_finished, searches_observed
from headway.decoding.limits import positions_end
from headway.decoding.non_finite import numbered
from headway.decoding.sampling import CHECK_STEPS, Sampling, before_stop
from headway.models.stepper import FixedStepper, Stepper
from headway.nn.taps import ObservableAttention, observed

MIN_TOKENS = 16  # fewer are not worth recording a step
MAX_TOKENS = 2**16  # of all rows together, for which keys, values and random numbers are reserved


def replay_for(
    model: Stepper[Any], prompt_BT: Tensor, max_tokens: int, context: int | None, sampling: Sampling
) -> Replay | None:
    """A generation of up to `max_tokens` after these prompts; None where it cannot be recorded."""
    rows, known = prompt_BT.shape
    capacity = known + max_tokens if context is None else min(known + max_tokens, context)
    if not (isinstance(model, FixedStepper) and isinstance(model, nn.Module)):
        return None
    if max_tokens < MIN_TOKENS or rows * max(capacity, max_tokens) > MAX_TOKENS:
        return None
    end = positions_end(model)  # what has no position is an error, which the plain way reports
    if (end is not None and capacity > end) or not len(model.stack.blocks) or _is_observed(model):
        return None
    decoder = GraphDecoder(model, rows=rows, capacity=capacity, steps=max_tokens, sampling=sampling, compiled=False)
    try:
        decoder.record()
    except RuntimeError:  # a part of the model cannot be recorded, or there is no memory; step by step it may work
        return None
    return Replay(decoder)


def _is_observed(model: nn.Module) -> bool:
    """Whether a hook or an observer would miss the steps that are replayed."""
    attentions = (part for part in model.modules() if isinstance(part, ObservableAttention))
    return (
        searches_observed(model)
        or any(observed(part) for part in model.modules())
        or any(part.on_attention is not None for part in attentions)
    )


class Replay:
    """One generation with a `GraphDecoder`."""

    def __init__(self, decoder: GraphDecoder) -> None:
        self.decoder = decoder

    def sample(
        self, prompt_BT: Tensor, max_tokens: int, *, stop: int, seed: int, numbers: Sequence[int]
    ) -> list[list[int]]:
        """What `sampling.sample` returns."""
        decoder, drawn = self.decoder, 1
        decoder.begin(prompt_BT, seed=seed, numbers=numbers)
        while drawn < max_tokens:
            if stop >= 0 and bool((decoder.written[:, :drawn] == stop).any(1).all()):
                break
            count = min(CHECK_STEPS if stop >= 0 else max_tokens, max_tokens - drawn)
            decoder.advance(count)
            drawn += count
        return [before_stop(tokens, stop) for tokens in decoder.read(0, drawn).tolist()]

    def stream(
        self,
        prompt_1T: Tensor,
        max_tokens: int,
        *,
        stops: Collection[int],
        context: int | None,
        seed: int,
        number: int,
    ) -> Iterator[int]:
        """What `sampling.stream` yields; CHECK_STEPS tokens are drawn ahead of the reader."""
        with numbered([number]), torch.no_grad():
            decoder = self.decoder
            text: list[int] = prompt_1T[0].tolist()
            known = text if context is None else text[-context:]
            decoder.begin(torch.tensor([known], device=prompt_1T.device), seed=seed, numbers=[number])
            drawn, told = 1, 0
            written: list[int] = []
            while True:
                for token in decoder.read(told, drawn)[0].tolist():
                    told += 1
                    if token in stops:
                        return
                    known.append(token)
                    written.append(token)
                    search_finished(decoder.model, [[written]])
                    yield token
                if drawn == max_tokens:
                    return
                if context is not None and len(known) > context:
                    known = known[-max(context // 2, 1) :]
                    written = []
                    decoder.again(torch.tensor([known], device=prompt_1T.device))
                    drawn += 1
                    continue
                room = max_tokens if context is None else context - len(known) + 1
                count = min(CHECK_STEPS, max_tokens - drawn, room)
                decoder.advance(count)
                drawn += count
