"""What the ranks of a training share out: the micro-batches of a step, and the batches of a validation.

A task whose losses draw from one stream for a whole step asks `micro_batches_before`, and leaves out what other ranks
draw. A task says `in_parts` where it adds up figures of a validation's batches. One process computes them one after
the other. Several ranks compute every n-th, and get the figures of all in the order of the batches, so that their sum
does not depend on the number of ranks. Tasks do not import the ranks: training says who shares.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextvars import ContextVar
from typing import Protocol, TypeVar

import torch
from torch import Tensor

from headway.documents import parse_json
from headway.errors import NonFiniteError

T = TypeVar("T")


class Sharers(Protocol):
    """Processes that know each other's values."""

    rank: int
    size: int

    def joined(self, values: Tensor) -> Tensor:
        """The values (N,) of all of them (size·N,), in their order."""
        ...


_BEFORE: ContextVar[int] = ContextVar("before", default=0)
_SHARERS: ContextVar[Sharers | None] = ContextVar("sharers", default=None)


@contextlib.contextmanager
def computing_after(count: int) -> Iterator[None]:
    """Compute losses of a step in the block, of which ranks before this one compute so many micro-batches."""
    token = _BEFORE.set(count)
    try:
        yield
    finally:
        _BEFORE.reset(token)


def micro_batches_before() -> int:
    """How many micro-batches of the step other ranks compute that come before those of this rank."""
    return _BEFORE.get()


@contextlib.contextmanager
def shared_by(sharers: Sharers | None) -> Iterator[None]:
    """Let these processes, which all come here, share what `in_parts` computes in the block."""
    token = _SHARERS.set(sharers)
    try:
        yield
    finally:
        _SHARERS.reset(token)


def in_parts(items: Iterable[T], compute: Callable[[T], tuple[float, ...]]) -> list[tuple[float, ...]]:
    """The figures of each item, in order. Raises NonFiniteError on all ranks if one of them does."""
    if _SHARERS.get() is None:
        return [compute(item) for item in items]
    found = values_in_parts(items, lambda item: torch.tensor(compute(item), dtype=torch.float64))
    return [tuple(values.tolist()) for values in found]


def texts_in_parts(items: Iterable[T], compute: Callable[[T], Sequence[str]]) -> list[str]:
    """The texts of all items, in order. Raises NonFiniteError on all ranks if one of them does."""
    if _SHARERS.get() is None:
        return [text for item in items for text in compute(item)]

    def coded(item: T) -> Tensor:
        return torch.tensor(list(json.dumps(list(compute(item))).encode()), dtype=torch.float64)

    found = values_in_parts(items, coded)
    return [text for values in found for text in parse_json(bytes(values.int().tolist()), "", nonfinite=True)]


def values_in_parts(items: Iterable[T], compute: Callable[[T], Tensor]) -> list[Tensor]:
    """The values (N,) of each item, any number of them, in order, in float64 on the CPU.

    Raises NonFiniteError on all ranks if one of them does. Ranks compute equally often, the last item again where there
    are no more: sharded models need each other.
    """
    sharers = _SHARERS.get()
    if sharers is None:
        return [_as_values(compute(item)) for item in items]
    own: list[Tensor] = []
    failed: NonFiniteError | None = None
    count = 0
    for item in items:
        mine = count % sharers.size == sharers.rank
        count += 1
        if mine:
            failed = _computed(item, compute, own) or failed
    if count and len(own) < -(-count // sharers.size):
        failed = _computed(item, compute, own) or failed
    flags = torch.tensor([float(failed is not None)], dtype=torch.float64)
    if sharers.joined(flags).any():
        raise failed or NonFiniteError("the validation of another rank met values that are NaN or infinite")
    return _exchanged(own, sharers)[:count] if count else []


def _exchanged(own: Sequence[Tensor], sharers: Sharers) -> list[Tensor]:
    """The values of all ranks' items, each of which has computed every n-th."""
    lengths = sharers.joined(torch.tensor([len(each) for each in own])).tolist()
    padded = torch.zeros(len(own), max(lengths), dtype=torch.float64)
    for row, values in zip(padded, own, strict=True):
        row[: len(values)] = values
    found = sharers.joined(padded.flatten().cpu()).view(len(lengths), -1).cpu()
    order = [rank * len(own) + n for n in range(len(own)) for rank in range(sharers.size)]
    return [found[at, : lengths[at]] for at in order]


def _computed(item: T, compute: Callable[[T], Tensor], into: list[Tensor]) -> NonFiniteError | None:
    """Add the values of an item -> the error that it met."""
    try:
        into.append(_as_values(compute(item)))
    except NonFiniteError as error:
        into.append(torch.zeros(0, dtype=torch.float64))
        return error
    return None


def _as_values(tensor: Tensor) -> Tensor:
    return tensor.detach().to("cpu", torch.float64)


def in_one(*tensors: Tensor) -> Tensor:
    """Tensors of any shapes as the values (N,) of an item; float32 and whole numbers up to 2^53 keep their bits."""
    return torch.cat([tensor.detach().double().flatten() for tensor in tensors])
