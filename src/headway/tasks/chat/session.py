"""Answers token by token, with a KV cache that is kept from one turn to the next."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from headway.data.chat_template import ChatEncoder
from headway.data.chats import SYSTEM, Conversation
from headway.decoding.memory import first_capacity
from headway.decoding.non_finite import numbered
from headway.decoding.rng import UniformStreams
from headway.decoding.sampling import Sampling, TokenSampler, tokens_in
from headway.errors import NonFiniteOutputError, TooLongError
from headway.limits import expect_within
from headway.models.stepper import Stepper

RESERVED = 4  # one in this many tokens of the context is kept free for an answer, unless `max_tokens` is less


class ChatSession:
    """A model that answers one prompt after the other.

    The state after an answer is kept with the tokens that were read. A prompt that begins with just these tokens goes
    on from there; any other is read from its beginning. Both give the same answer.
    """

    def __init__(self, model: Stepper[Any], device: torch.device, *, context: int | None) -> None:
        self.model, self.device, self.context = model, device, context
        self.held: tuple[list[int], Any] | None = None  # the tokens read, and the state after them
        self.reused = 0  # tokens of the last prompt that were not read again

    def answer(
        self,
        prompt: Sequence[int],
        sampling: Sampling,
        *,
        max_tokens: int,
        seed: int,
        number: int,
        stops: frozenset[int],
        note: Callable[[str], None],
    ) -> Iterator[int]:
        """The tokens of an answer as they are drawn, up to one of `stops`; those of text `number` of a seed."""
        expect_within("output-tokens", max_tokens, "max_tokens")
        return self._answer(list(prompt), sampling, max_tokens, seed, number, stops, note)

    @torch.no_grad()
    def _answer(
        self,
        prompt: list[int],
        sampling: Sampling,
        max_tokens: int,
        seed: int,
        number: int,
        stops: frozenset[int],
        note: Callable[[str], None],
    ) -> Iterator[int]:
        known, state = self._begin(prompt, max_tokens)
        self.reused = len(known)
        fresh = prompt[len(known) :]
        try:
            with numbered([number]):
                prompt_1T = torch.tensor([prompt], device=self.device)
                uniforms = UniformStreams(seed, [number], self.device)
                sampler: TokenSampler | None = None
                for step in range(max_tokens):
                    held, state = state, None  # not to be kept if reading is interrupted
                    logits, extended = self.model.extend(torch.tensor([fresh], device=self.device), held)
                    known, state = known + fresh, extended
                    if sampler is None:
                        ends = torch.tensor([len(prompt)], device=self.device)
                        sampler = TokenSampler(
                            sampling, uniforms, tokens_in(prompt_1T, ends, logits.shape[2], sampling)
                        )
                    token = sampler.draw(logits[:, -1], step)
                    if not math.isfinite(float(sampler.largest)):
                        raise NonFiniteOutputError(0, step + 1)
                    fresh = [int(token)]
                    if fresh[0] in stops:
                        return
                    yield fresh[0]
                    if self.context is not None and len(known) >= self.context:
                        note(f"the answer ends at the model's context of {self.context} tokens")
                        return
        finally:
            self.held = None if state is None or not known else (known, state)

    def _begin(self, prompt: Sequence[int], max_tokens: int) -> tuple[list[int], Any]:
        """The tokens of a prompt that were read already, and the state after them; it is no longer held then."""
        held, self.held = self.held, None
        if held is not None and len(held[0]) < len(prompt) and list(prompt[: len(held[0])]) == held[0]:
            return held
        capacity = first_capacity(1, len(prompt), max_tokens)
        return [], self.model.start(capacity=capacity if self.context is None else min(capacity, self.context))


def fitted(
    encoder: ChatEncoder,
    messages: Conversation,
    *,
    context: int | None,
    max_tokens: int,
    note: Callable[[str], None],
) -> list[int]:
    """The prompt of a conversation; the oldest messages are dropped until it leaves room for an answer.

    A system message at the beginning stays. Raises TooLongError if the last message alone is too long.
    """
    prompt = encoder.prompt(messages)
    if context is None:
        return prompt
    most, whole = context - min(max_tokens, max(context // RESERVED, 1)), len(prompt)
    kept = messages[:1] if messages[0].role == SYSTEM else ()
    rest = list(messages[len(kept) :])
    dropped = 0
    while len(prompt) > most and len(rest) > 1:
        rest.pop(0)
        dropped += 1
        while len(rest) > 1 and rest[0].role != "user":  # an answer without its question
            rest.pop(0)
            dropped += 1
        prompt = encoder.prompt([*kept, *rest])
    if len(prompt) > most:
        raise TooLongError(
            f"the message has {len(prompt):,} tokens with its template, and the model reads {context:,}, of which "
            f"{context - most:,} are for the answer: shorten it"
        )
    if dropped:
        plural = "message" if dropped == 1 else "messages"
        note(
            f"the {dropped} oldest {plural} left out: the conversation has {whole:,} tokens, "
            f"the model reads {context:,}, of which {context - most:,} are for the answer"
        )
    return prompt
