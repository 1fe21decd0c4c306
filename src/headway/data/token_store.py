"""Memory-mapped token ids: a corpus is tokenised once and never held in memory."""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from headway.data.token_stream import windows_of
from headway.storage.commit import commit_folder, discard
from headway.storage.manifest import problems

Ids = NDArray[np.uint32]


@dataclass(frozen=True, slots=True)
class TokenStore:
    """Concatenated sequences of token ids: `ids[starts[n]:starts[n + 1]]` is sequence n."""

    ids: Ids
    starts: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __getitem__(self, n: int) -> Ids:
        return self.ids[self.starts[n] : self.starts[n + 1]]

    def padded(self, rows: NDArray[np.int64], *, stop: int, pad: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Sequences padded to (B, T), each followed by `stop`, and their lengths (B,) including it."""
        begins = np.asarray(self.starts[rows])
        lengths = np.asarray(self.starts[rows + 1]) - begins
        places = np.arange(int(lengths.max()) + 1)
        real = places < lengths[:, None]
        out = np.full(real.shape, pad, np.int64)
        out[real] = self.ids[(begins[:, None] + places)[real]]
        out[np.arange(len(rows)), lengths] = stop
        return out, lengths + 1

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Tokens in each sequence."""
        return np.diff(self.starts)

    @property
    def total(self) -> int:
        """Tokens of all sequences, read as one `TokenStream`."""
        return len(self.ids)

    def windows(self, starts: NDArray[np.int64], length: int) -> NDArray[np.int64]:
        """The `length` ids from each start on, (B, length); 0 where that is past the end."""
        return windows_of(self.ids, starts, length)

    def pieces(self) -> Iterator[Ids]:
        """All ids, in one piece."""
        yield self.ids


def store_tokens(folder: Path, sequences: Iterable[list[int]]) -> TokenStore:
    """The store in this folder, created from the sequences if it is missing or damaged."""
    if not folder.exists() or problems(folder):
        discard(folder)
        with commit_folder(folder, shared=True) as draft:
            starts = array("q", [0])  # a fifth of the memory of a list

            def ids_of_each() -> Iterator[bytes]:
                for sequence in sequences:
                    starts.append(starts[-1] + len(sequence))
                    yield np.asarray(sequence, dtype=np.uint32).tobytes()

            draft.pieces("ids.u32", ids_of_each())
            draft.array("starts.i64", np.asarray(starts, dtype=np.int64))
    ids = folder / "ids.u32"
    empty = ids.stat().st_size == 0  # an empty file cannot be mapped
    return TokenStore(
        np.zeros(0, np.uint32) if empty else np.memmap(ids, dtype=np.uint32, mode="r"),
        np.memmap(folder / "starts.i64", dtype=np.int64, mode="r"),
    )


def fingerprint(parts: Iterable[str | bytes]) -> str:
    """A short content hash, for cache keys."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part if isinstance(part, bytes) else part.encode("utf-8", "surrogatepass"))
        digest.update(b"\0")
    return digest.hexdigest()[:20]
