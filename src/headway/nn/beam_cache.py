"""Lines of a search that grew from one row: they share its past, and of what came since each knows its own.

A step of a beam chooses among the lines of a source, and a cache that held a row for each would have to move most of
itself. Here nothing moves. The keys of one position stand side by side, one a line, and a line's past is a list of the
places it was written in: the keys it looks at.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from headway.ops import Listed


@dataclass(frozen=True, slots=True)
class Lines:
    """`count` lines for each of N rows; keys since they parted stand at shared + (position - shared)·count + place."""

    count: int
    shared: int  # positions from before the lines parted: held once
    places: Tensor  # (N·count, P): which line wrote what this line holds at each position since

    @classmethod
    def parted(cls, rows: int, count: int, shared: int) -> Lines:
        """Lines that have only just parted."""
        return cls(count, shared, torch.empty(rows * count, 0, dtype=torch.long))

    def select(self, lines: Tensor) -> Lines:
        """These lines, in this order."""
        return replace(self, places=self.places[lines])

    def grown(self) -> Lines:
        """After one position more, which every line writes in its own place."""
        own = torch.arange(len(self.places)).remainder_(self.count).unsqueeze_(1)
        return replace(self, places=torch.cat([self.places, own], 1))

    def begin(self, position: int) -> int:
        """Where the keys of a position begin."""
        return self.shared + (position - self.shared) * self.count

    def mask(self) -> Listed:
        """Which key (of N, in the order they stand in) a line may look at: its own."""
        index = self.index()
        return Listed(index.view(-1, self.count, index.shape[1]))

    def together(self, x_BHTE: Tensor) -> Tensor:
        """(N·count, H, 1, E) -> (N, H, count, E)."""
        return gathered(x_BHTE, self.count)

    def own(self, x_NGSE: Tensor) -> Tensor:
        """Keys or values as they stand -> each line's, in the order they were written (N·count, G, positions, E)."""
        index = self.index()
        row = torch.arange(len(index)).div(self.count, rounding_mode="floor").unsqueeze(1)
        return x_NGSE.transpose(1, 2)[row, index].transpose(1, 2)

    def index(self) -> Tensor:
        """(N·count, positions): where among the keys as they stand each line's own are, in the order of writing."""
        since = torch.arange(self.places.shape[1]) * self.count + self.places + self.shared
        return torch.cat([torch.arange(self.shared).expand(len(since), -1), since], 1)


def gathered(x_BHTE: Tensor, lines: int) -> Tensor:
    """The rows of one source as its queries: (N·lines, H, T, E) -> (N, H, lines·T, E)."""
    apart: Tensor = x_BHTE.unflatten(0, (-1, lines))
    return apart.transpose(1, 2).flatten(2, 3)


def apart(x_NHTE: Tensor, lines: int) -> Tensor:
    """What `gathered` joined: (N, H, lines·T, E) -> (N·lines, H, T, E)."""
    each: Tensor = x_NHTE.unflatten(2, (lines, -1))
    return each.transpose(1, 2).flatten(0, 1)


def sources(rows_B: Tensor, lines: int) -> tuple[Tensor, int] | None:
    """Of rows that stand `lines` to a source: their sources, and how many each keeps side by side if all keep as many.

    Looks at the rows, so that only those on a CPU have an answer.
    """
    if rows_B.device.type != "cpu" or not len(rows_B):
        return None
    kept, counts = torch.unique_consecutive(rows_B // lines, return_counts=True)
    return (kept, int(counts[0])) if bool((counts == counts[0]).all()) else None
