"""What the ranks of a training share out: the micro-batches of a step, and the batches of a validation.

A task whose losses draw from one stream for a whole step asks `micro_batches_before`, and leaves out what other ranks
draw. A task says `in_parts` where it adds up figures of a validation's batches. One process computes them one after
the other. Several ranks compute every n-th, and get the figures of all in the order of the batches, so that their sum
does not depend on the number of ranks. Tasks do not import the ranks: training says who shares.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from typing import Protocol, TypeVar

import torch
from torch import Tensor

from headway.errors import NonFiniteError

T = TypeVar("T")


class Sharers(Protocol):
    """Processes that know each other's values."""

    rank: int
    size: int

    def joined(self, values: Tensor) -> Tensor:
        """The values (N,) of all of them (size·N,), in their order."""
        ...

    @property
    def device(self) -> torch.device:
        """Where these values are."""
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
    """The figures of each item, equally many, in order. Raises NonFiniteError on all ranks if one of them does.

    Ranks compute equally often, the last item again where there are no more: sharded models need each other.
    """
    sharers = _SHARERS.get()
    if sharers is None:
        return [compute(item) for item in items]
    own: list[tuple[float, ...]] = []
    failed: NonFiniteError | None = None
    count = 0
    for item in items:
        mine = count % sharers.size == sharers.rank
        count += 1
        if mine:
            failed = _computed(item, compute, own) or failed
    if count and len(own) < -(-count // sharers.size):
        failed = _computed(item, compute, own) or failed
    flags = torch.tensor([float(failed is not None)], dtype=torch.float64, device=sharers.device)
    if sharers.joined(flags).any():
        raise failed or NonFiniteError("the validation of another rank met values that are NaN or infinite")
    if not count:
        return []
    values = torch.tensor(own, dtype=torch.float64, device=sharers.device)
    found = sharers.joined(values.flatten()).view(sharers.size, *values.shape).transpose(0, 1).flatten(0, 1)
    return [tuple(row) for row in found[:count].tolist()]


def _computed(
    item: T, compute: Callable[[T], tuple[float, ...]], into: list[tuple[float, ...]]
) -> NonFiniteError | None:
    """Add the figures of an item -> the error that it met."""
    try:
        into.append(compute(item))
    except NonFiniteError as error:
        into.append(())
        return error
    return None
