"""Rows that step together though each began at its own time, with the numbers that each would have alone.

How a matrix product adds up depends on the number of rows: one row, two or three, and the rest of a division by four
are computed by other code than the others (MKL, float32), and very small products in bfloat16 by other code than larger
ones. So a step always has a multiple of four rows (`row_multiple`), of which the last may be blank; attention is
computed row by row (`nn.row_cache`), and 8-bit layers have a scale for each row (`nn.int8.per_row`). A prompt is read
alone, in chunks that begin at multiples of their size, before its row joins.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Generic, TypeGuard, TypeVar

import torch
from torch import Tensor, nn

from headway.models.stepper import RowStepper
from headway.nn.embedding import Head, TokenEmbedding
from headway.nn.int8.layers import Int8Linear, supported
from headway.nn.int8.outliers import OutlierInt8Linear
from headway.nn.int8.per_row import RowInt8Linear, scale_per_row
from headway.nn.positions import InputPositions

ROW_MULTIPLE = 4  # rows of a step are a multiple of this, or of a multiple of it
SMALL_BF16 = 16**3  # rows·inputs·outputs of a bfloat16 product, up to which torch does not ask oneDNN for it
CHUNK = 32  # tokens of a prompt that are read at once

State = TypeVar("State")


def joins_rows(model: object) -> TypeGuard[RowStepper[Any]]:
    """Whether rows of a model can come and go."""
    return hasattr(model, "join") and hasattr(model, "fork")


def prepare(model: nn.Module) -> None:
    """Make the layers of a model, in place, independent of the rows beside a row."""
    if any(isinstance(part, Int8Linear) for part in model.modules()):
        scale_per_row(model)


def row_multiple(model: nn.Module) -> int:
    """How many rows, or a multiple of it, every step of a model has: enough for all products to be of one kind."""
    if _multiplies_in_8_bits(model):
        return 1  # sums of 8-bit products are exact, in whatever order
    sizes = [each.numel() for each in model.parameters() if each.ndim == 2 and each.dtype == torch.bfloat16]
    least = SMALL_BF16 // min(sizes, default=SMALL_BF16) + 1
    return -(-least // ROW_MULTIPLE) * ROW_MULTIPLE


def _multiplies_in_8_bits(model: nn.Module) -> bool:
    """Whether every product with weights is one of 8-bit layers: all other matrices are tables that are only read."""
    layers = [part for part in model.modules() if isinstance(part, Int8Linear)]
    tables = [part for part in model.modules() if isinstance(part, TokenEmbedding | InputPositions)]
    read = {id(each) for table in tables for each in table.parameters(recurse=False)}
    exact = all(isinstance(layer, RowInt8Linear | OutlierInt8Linear) for layer in layers)
    exact = exact and not any(isinstance(part, Head) for part in model.modules())  # a tied one multiplies a table
    no_others = all(each.ndim < 2 or id(each) in read for each in model.parameters())
    return supported() and bool(layers) and exact and no_others


class Prefill(Generic[State]):
    """A prompt that is read in chunks, alone."""

    def __init__(
        self,
        model: RowStepper[State],
        prompt: Sequence[int],
        chunk: int = CHUNK,
        known: tuple[int, State] | None = None,
    ) -> None:
        """`known`: how many tokens, whole chunks or all, were read before, and the state after them."""
        self.model, self.prompt, self.chunk = model, prompt, chunk
        self.read, self.state = (0, model.start(capacity=len(prompt))) if known is None else known

    @property
    def done(self) -> bool:
        """Whether all of the prompt is read."""
        return self.read == len(self.prompt)

    @torch.no_grad()
    def advance(self, *, every: bool = False) -> Tensor | None:
        """Read the next chunk -> logits (1, V) for what follows the last token of the prompt, None before it.

        With `every`, logits (T, V) for what follows each token of the chunk.
        """
        tokens = self.prompt[self.read : self.read + self.chunk]
        hidden_1TD, self.state = self.model.extend_hidden(torch.tensor([tokens]), self.state)
        self.read += len(tokens)
        last_1V = self.model.read(hidden_1TD[:, -1:])[0] if self.done else None
        if not every:
            return last_1V
        logits_TV = self.model.read(hidden_1TD)[0]
        # By itself the last has the bits that it has without `every`.
        return logits_TV if last_1V is None else torch.cat([logits_TV[:-1], last_1V])


class RowBatch(Generic[State]):
    """The rows in flight. A row is known by its place; the last row takes the place of one that leaves."""

    def __init__(self, model: RowStepper[State]) -> None:
        self.model = model
        self.count, self.multiple = 0, row_multiple(model) if isinstance(model, nn.Module) else ROW_MULTIPLE
        self._state: State | None = None  # of all rows, then of blank ones up to a multiple of `multiple`
        self._blanks = 0
        _, self._blank = self._read_blank()

    @torch.no_grad()
    def _read_blank(self) -> tuple[Tensor, State]:
        return self.model.extend(torch.zeros(1, 1, dtype=torch.long), self.model.start(capacity=1))

    def add(self, state: State) -> None:
        """Add the row of a state that has read a prompt."""
        kept = [] if self._state is None else [self._only_rows()]
        self.count += 1
        self._blanks = -self.count % self.multiple
        self._state = self.model.join([*kept, state, *[self._blank] * self._blanks])

    def _only_rows(self) -> State:
        """The state without blank rows."""
        assert self._state is not None
        return self.model.select(self._state, torch.arange(self.count)) if self._blanks else self._state

    def remove(self, places: Collection[int]) -> list[int]:
        """Remove rows -> for each place that is left, the place its row had before."""
        gone = set(places)
        order = [place for place in range(self.count) if place not in gone]
        kept = len(order)
        # Rows beyond those that stay fill the gaps, so that no other row is moved.
        movers = iter([place for place in reversed(order) if place >= kept])
        order = [place if place not in gone else next(movers) for place in range(kept)]
        self._restack(order)
        return order

    def _restack(self, order: Sequence[int]) -> None:
        assert self._state is not None
        if not order:
            self.count, self._blanks, self._state = 0, 0, None
            return
        state = self.model.select(self._state, torch.tensor(order))
        self.count, self._blanks = len(order), -len(order) % self.multiple
        self._state = self.model.join([state, *[self._blank] * self._blanks]) if self._blanks else state

    def fork(self, places: Sequence[int]) -> RowBatch[State]:
        """A batch of copies of these rows; this one stays as it is."""
        assert self._state is not None
        copy: RowBatch[State] = RowBatch.__new__(RowBatch)
        copy.model, copy._blank, copy.count = self.model, self._blank, len(places)
        copy.multiple, copy._blanks = self.multiple, -len(places) % self.multiple
        state = self.model.fork(self._state, torch.tensor(places))
        copy._state = self.model.join([state, *[self._blank] * copy._blanks])
        return copy

    def absorb(self, others: Sequence[RowBatch[State]]) -> None:
        """Replace the rows by those of other batches, in their order."""
        states = [each._only_rows() for each in others if each.count]
        self.count = sum(each.count for each in others)
        self._blanks = -self.count % self.multiple
        self._state = self.model.join([*states, *[self._blank] * self._blanks]) if states else None

    @torch.no_grad()
    def step(self, tokens: Sequence[int]) -> Tensor:
        """Append one token to each row -> logits (B, V) for the next. Rows are as before if it raises."""
        assert self._state is not None
        if len(tokens) != self.count:
            raise ValueError(f"{len(tokens)} tokens for {self.count} rows")
        column = torch.tensor([*tokens, *[0] * self._blanks]).unsqueeze(1)
        logits, self._state = self.model.extend(column, self._state)
        return logits[: self.count, -1]
