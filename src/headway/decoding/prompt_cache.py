"""Prompts that were read before, so that another that begins alike reads only the rest: exact, not approximate.

A prompt is read in chunks that begin at multiples of their size, and what a chunk computes depends on nothing but the
tokens up to its end. So the state after as many whole chunks as two prompts share is, to the bit, the same for both; of
a prompt that was read whole, as by several sequences of one prompt, the last logits are kept as well.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeGuard, TypeVar

from torch import Tensor

from headway.decoding.row_batch import CHUNK
from headway.models.stepper import PrefixStepper, RowStepper

State = TypeVar("State")
Key = tuple[str, tuple[int, ...]]


def has_prefixes(model: RowStepper[State]) -> TypeGuard[PrefixStepper[State]]:
    """Whether the beginning of a model's state can be taken."""
    return hasattr(model, "prefix")


class Known(NamedTuple):
    """What is known of a prompt: a state after its first `read` tokens, and the logits after all of them."""

    read: int
    state: Any
    logits: Tensor | None  # (1, V)


@dataclass(slots=True)
class _Entry(Generic[State]):
    prompt: tuple[int, ...]
    state: State
    logits: Tensor
    keys: list[Key]


class PromptCache(Generic[State]):
    """The prompts read last, up to a number of tokens together. An owner never gets what another has read."""

    def __init__(self, model: RowStepper[State], tokens: int, chunk: int = CHUNK) -> None:
        self.model = model if has_prefixes(model) else None  # others read every prompt
        self.limit, self.chunk = 0 if self.model is None else tokens, chunk
        self.tokens = 0
        self._entries: OrderedDict[Key, _Entry[State]] = OrderedDict()  # by the whole prompt, the oldest first
        self._prefixes: dict[Key, _Entry[State]] = {}  # by as many whole chunks of it

    def find(self, owner: str, prompt: Sequence[int]) -> Known | None:
        """The most that is known of a prompt; the state is a copy, or is not to be extended if `read` is all."""
        whole = tuple(prompt)
        entry = self._entries.get((owner, whole))
        if entry is not None:
            self._entries.move_to_end((owner, whole))
            return Known(len(whole), entry.state, entry.logits)
        for read in range((len(whole) - 1) // self.chunk * self.chunk, 0, -self.chunk):
            entry = self._prefixes.get((owner, whole[:read]))
            if entry is not None and self.model is not None:
                self._entries.move_to_end((owner, entry.prompt))
                return Known(read, self.model.prefix(entry.state, read, capacity=len(whole)), None)
        return None

    def add(self, owner: str, prompt: Sequence[int], state: State, logits: Tensor) -> None:
        """Keep the state after a prompt, which must not be extended from now on, and forget the oldest instead."""
        whole = tuple(prompt)
        if len(whole) > self.limit or (owner, whole) in self._entries:
            return
        while self.tokens + len(whole) > self.limit:
            self._forget()
        lengths = range(self.chunk, len(whole) + 1, self.chunk)
        entry = _Entry(whole, state, logits.clone(), [(owner, whole[:length]) for length in lengths])
        self._entries[owner, whole] = entry
        self._prefixes.update(dict.fromkeys(entry.keys, entry))
        self.tokens += len(whole)

    def _forget(self) -> None:
        (_, whole), entry = self._entries.popitem(last=False)
        self.tokens -= len(whole)
        for key in entry.keys:
            if self._prefixes.get(key) is entry:
                del self._prefixes[key]
