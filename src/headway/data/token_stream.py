"""A text as one long stream of token ids, whatever holds them: an array, or the parts of a prepared store."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from headway.data.tokenizers import Tokenizer

if TYPE_CHECKING:
    from headway.data.mixes import Mix

AnyIds = NDArray[np.integer[Any]]


class TokenStream(Protocol):
    """`total` token ids, of which windows are read."""

    @property
    def total(self) -> int:
        """The number of tokens."""

    def windows(self, starts: NDArray[np.int64], length: int) -> NDArray[np.int64]:
        """The `length` ids from each start on, (B, length); 0 where that is past the end."""

    def pieces(self) -> Iterator[AnyIds]:
        """All ids in order, in pieces that can be decoded each for itself and fit into memory."""


def windows_of(ids: AnyIds, starts: NDArray[np.int64], length: int) -> NDArray[np.int64]:
    """The windows of an array: the `length` ids from each start on (B, length); 0 where that is past the end."""
    places = np.asarray(starts)[:, None] + np.arange(length)
    if not len(starts) or int(places.max()) < len(ids):
        return np.asarray(ids[places], np.int64)
    return np.where(places < len(ids), ids[np.minimum(places, len(ids) - 1)].astype(np.int64), 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedText:
    """Text that was tokenised before: its streams and digests by split, and its tokenizer where that is known."""

    name: str
    splits: Mapping[str, TokenStream]
    digests: Mapping[str, str]
    tokenizer: Tokenizer | None
    mix: Mix | None = None  # of several texts: which rows are of which
