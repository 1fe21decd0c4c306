"""A model that writes one token after another, as the live page drives it: what it begins with, and what may follow."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from headway.data.tokenizers import Tokenizer
from headway.decoding.limits import positions_end
from headway.decoding.memory import first_capacity
from headway.errors import DataError
from headway.models.stepper import EncoderInput, Stepper
from headway.tasks.explanation import Explanation


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenWriter:
    """One input, read already, and the tokens that are written after it."""

    model: Stepper[Any]
    tokenizer: Tokenizer  # of what is written
    sequence: str  # the page's sequence that the tokens are appended to
    explain: Callable[[Sequence[int]], Explanation]  # the forward pass over the input and these tokens
    begin: tuple[int, ...] = ()  # tokens that always come first, and are not part of what is written
    prompt: tuple[int, ...] = ()  # what is written at first
    stops: frozenset[int] = frozenset()  # tokens that end a text
    source: EncoderInput | None = None
    device: torch.device

    def begun(self, written: Sequence[int], room: int) -> tuple[Tensor, Any]:
        """The logits (V,) of what follows these tokens, and the state to go on from.

        Raises DataError where the model has no positions for them and `room` more.
        """
        ids = [*self.begin, *written]
        end = positions_end(self.model)
        if not ids or (end is not None and len(ids) + room > end):
            raise DataError(f"{len(ids)} tokens and {room} more, allowed: 1 to {end} in all")
        tokens_1T = torch.tensor([ids], device=self.device)
        state = self.model.start(self.source, capacity=first_capacity(1, len(ids), room))
        return self._next(tokens_1T, state)

    def extended(self, token: int, state: Any) -> tuple[Tensor, Any]:
        """The same after one more token; `state` must not be used again."""
        return self._next(torch.tensor([[token]], device=self.device), state)

    @torch.no_grad()
    def _next(self, tokens_1T: Tensor, state: Any) -> tuple[Tensor, Any]:
        logits_1TV, state = self.model.extend(tokens_1T, state)
        return logits_1TV[0, -1].float(), state
