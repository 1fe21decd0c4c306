"""Equal documents of an input: found by their hashes, of which the first in the order of the input is kept.

A hash has 16 bytes. To find equal ones all are sorted together, which takes about 64 bytes of memory a document.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Container, Iterator
from pathlib import Path

import numpy as np

from headway.data.store_documents import text_bytes
from headway.storage.commit import commit_file, commit_folder

HASHES, DUPLICATES = "hashes", "duplicates"  # folders of a store while it is prepared
SIZE = 16


def hash_documents(
    store: Path, unit: int, documents: Iterator[Iterator[str]], report: Callable[[int, int], None]
) -> None:
    """Write the hashes of the documents of a unit."""
    found = bytearray()
    for document in documents:
        digest, size = hashlib.blake2b(digest_size=SIZE), 0
        for chunk in document:
            digest.update(chunk.encode("utf-8", "surrogatepass"))
            size += text_bytes(chunk)
        found += digest.digest()
        report(size, 0)
    commit_file(hashes_path(store, unit), bytes(found))


def hashes_path(store: Path, unit: int) -> Path:
    """The file with the hashes of the documents of a unit."""
    return store / HASHES / f"{unit}.u128"


def find_duplicates(store: Path, units: int) -> None:
    """Write the numbers of documents in each unit that are equal to one before."""
    hashes = [np.fromfile(hashes_path(store, unit), "<u8").reshape(-1, 2) for unit in range(units)]
    starts = np.concatenate([[0], np.cumsum([len(each) for each in hashes])])
    joined = np.concatenate(hashes)
    order = np.lexsort((joined[:, 1], joined[:, 0]))  # stable: of equal ones, the first comes first
    ordered = joined[order]
    again = np.zeros(len(order), np.bool_)
    again[1:] = (ordered[1:] == ordered[:-1]).all(1)
    numbers = np.sort(order[again])
    with commit_folder(store / DUPLICATES, shared=True) as draft:
        for unit in range(units):
            own = numbers[np.searchsorted(numbers, starts[unit]) : np.searchsorted(numbers, starts[unit + 1])]
            draft.array(f"{unit}.i64", own - starts[unit])


def duplicates_of(store: Path, unit: int) -> Container[int]:
    """The numbers of the documents of a unit that are left out."""
    return frozenset(np.fromfile(store / DUPLICATES / f"{unit}.i64", np.int64).tolist())
