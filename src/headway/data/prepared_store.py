"""A prepared store of text: parts of token ids, and an index by which a training starts without reading them.

    STORE/tokenizer.json
    STORE/part-000123/ids.u16 (or .u32), blocks.sha256, MANIFEST.json
    STORE/index.json

The index has the tokens of each part, and the checksum of `blocks.sha256`, which has that of each block of 16 KiB. A
block is checked when it is first read in a process, so that a start costs the same however large the store is, and no
damaged token is trained on.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from headway.checked_json import JsonFields
from headway.data.token_stream import AnyIds, PreparedText
from headway.data.tokenizers import Tokenizer
from headway.documents import parse_json, read_within
from headway.errors import DataError
from headway.storage.manifest import json_text

INDEX, TOKENIZER = "index.json", "tokenizer.json"
PLAN = "prepare.json"  # what the store is made of, while it is made and after
BLOCKS = "blocks.sha256"
BLOCK = 1 << 14  # bytes of ids that are checked at once: a random row of a large store costs the check of one or two
FORMAT = 1
DIGEST = hashlib.sha256().digest_size
IDS = {2: "ids.u16", 4: "ids.u32"}  # by the bytes of an id
PART_NAME = re.compile(r"part-[0-9]{6,12}(\.[0-9]{3,9})?")
MAX_TOKENS = 2**48  # of a part
REMEDY = "`headway prepare` with the same arguments and --verify makes it again"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartEntry:
    """A part in the index."""

    name: str
    tokens: int
    sha256: str  # of its checksums of blocks


class StoredPart:
    """The ids of a part, mapped when they are first read."""

    def __init__(self, folder: Path, entry: PartEntry, width: int) -> None:
        self.folder, self.entry, self.width = folder, entry, width
        self._good: NDArray[np.bool_] | None = None

    @cached_property
    def _digests(self) -> bytes:
        path = self.folder / BLOCKS
        count = -(-self.entry.tokens * self.width // BLOCK)
        found = self._bytes(path, count * DIGEST)
        if hashlib.sha256(found).hexdigest() != self.entry.sha256:
            raise self._damaged(f"{BLOCKS} is not as {INDEX} says")
        return found

    @cached_property
    def _ids(self) -> AnyIds:
        path = self.folder / IDS[self.width]
        expected = self.entry.tokens * self.width
        try:
            size = path.stat().st_size
            if path.is_symlink() or size != expected:
                raise self._damaged(f"{path.name} has {size:,} bytes, expected {expected:,}")
            return mapped(path, f"<u{self.width}") if size else np.zeros(0, f"<u{self.width}")
        except OSError as error:
            raise self._damaged(f"{path.name} cannot be read ({error.strerror})") from error

    @property
    def tokens(self) -> int:
        """The number of ids."""
        return self.entry.tokens

    def pieces(self) -> Iterator[AnyIds]:
        """All ids, in one piece, which is read ahead."""
        if self.tokens and hasattr(os, "posix_fadvise"):  # not on macOS
            with (self.folder / IDS[self.width]).open("rb") as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_WILLNEED)
        yield self.read(0, self.tokens)

    def read(self, first: int, last: int) -> AnyIds:
        """The ids from `first` to `last`, checked. Raises DataError if they are damaged."""
        digests, ids = self._digests, self._ids
        if self._good is None:
            self._good = np.zeros(len(digests) // DIGEST, np.bool_)
        per_block = BLOCK // self.width
        for block in range(first // per_block, -(-last // per_block)):
            if not self._good[block]:
                content = ids[block * per_block : (block + 1) * per_block]
                if hashlib.sha256(content.data).digest() != digests[block * DIGEST : (block + 1) * DIGEST]:
                    raise self._damaged(f"{IDS[self.width]} is damaged at byte {block * BLOCK:,}")
                self._good[block] = True
        return ids[first:last]

    def _bytes(self, path: Path, size: int) -> bytes:
        try:
            with path.open("rb") as file:
                return file.read(size + 1)
        except OSError as error:
            raise self._damaged(f"{path.name} cannot be read ({error.strerror})") from error

    def _damaged(self, reason: str) -> DataError:
        return DataError(f"{self.folder}: {reason}; {REMEDY}")


def mapped(path: Path, dtype: str, offset: int = 0, count: int = -1) -> AnyIds:
    """Numbers of a file from a byte on, mapped for rows that are read here and there: nothing is read ahead.

    What the kernel reads ahead of a fault, up to hundreds of kilobytes, would be most of the time of a row.
    """
    with path.open("rb") as file:
        content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    if hasattr(mmap, "MADV_RANDOM"):  # not on Windows
        content.madvise(mmap.MADV_RANDOM)
    return np.frombuffer(content, dtype, count, offset)


class Part(Protocol):
    """Some of the tokens of a stream."""

    @property
    def tokens(self) -> int:
        """The number of ids."""

    def read(self, first: int, last: int) -> AnyIds:
        """The ids from `first` to `last`. Raises DataError if they cannot be trained on."""

    def pieces(self) -> Iterator[AnyIds]:
        """All ids, in pieces that fit into memory."""


class PartStream:
    """The parts of a split as one stream of tokens."""

    def __init__(self, parts: Sequence[Part]) -> None:
        self.parts = parts
        self.starts = np.concatenate([[0], np.cumsum([part.tokens for part in parts], dtype=np.int64)])

    @property
    def total(self) -> int:
        """The number of tokens."""
        return int(self.starts[-1])

    def windows(self, starts: NDArray[np.int64], length: int) -> NDArray[np.int64]:
        """The `length` ids from each start on, (B, length); 0 where that is past the end."""
        out = np.zeros((len(starts), length), np.int64)
        for row, (start, number) in enumerate(
            zip(starts.tolist(), np.searchsorted(self.starts, starts, side="right").tolist(), strict=True)
        ):
            at, part = start, number - 1
            while at < start + length and part < len(self.parts):
                begin, end = int(self.starts[part]), int(self.starts[part + 1])
                last = min(start + length, end)
                if at < last:
                    out[row, at - start : last - start] = self.parts[part].read(at - begin, last - begin)
                at, part = max(at, last), part + 1
        return out

    def pieces(self) -> Iterator[AnyIds]:
        """All ids, part by part."""
        return (piece for part in self.parts for piece in part.pieces())


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreIndex:
    """What the index of a store says."""

    width: int  # bytes of an id
    tokenizer: str  # the hash of its content
    splits: Mapping[str, tuple[PartEntry, ...]]
    facts: Mapping[str, int] = field(default_factory=dict)  # what was read and what was skipped

    def text(self) -> str:
        """The content of its file, with its own checksum."""
        content = self._content()
        return json_text({**content, "sha256": _hash(content)})

    def _content(self) -> dict[str, Any]:
        splits = {
            name: [{"name": part.name, "tokens": part.tokens, "sha256": part.sha256} for part in parts]
            for name, parts in self.splits.items()
        }
        return {
            "format": FORMAT, "width": self.width, "tokenizer": self.tokenizer, "facts": dict(self.facts),
            "splits": splits,
        }  # fmt: skip

    @property
    def digest(self) -> str:
        """The digest of all of the data."""
        return _hash(self._content())

    def digests(self) -> dict[str, str]:
        """The digest of each split."""
        content = self._content()
        shared = {name: content[name] for name in ("format", "width", "tokenizer")}
        return {name: _hash({**shared, "parts": parts}) for name, parts in content["splits"].items()}

    @property
    def tokens(self) -> dict[str, int]:
        """The tokens of each split."""
        return {name: sum(part.tokens for part in parts) for name, parts in self.splits.items()}


def _hash(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def is_store(folder: Path) -> bool:
    """Whether a folder is a prepared store, complete or not."""
    return os.path.isfile(folder / INDEX) or os.path.isfile(folder / PLAN)  # False for a name that cannot be


def read_index(folder: Path) -> StoreIndex:
    """The index of a store. Raises DataError for one that is missing or damaged."""
    path = folder / INDEX
    if not path.is_file():
        raise DataError(
            f"{folder}: a store that is not finished (it has no {INDEX}); `headway prepare` goes on with it"
        )
    given = parse_json(read_within(path, "document-bytes"), str(path))
    if not isinstance(given, dict) or given.get("format") != FORMAT:
        version = given.get("format") if isinstance(given, dict) else type(given).__name__
        raise DataError(f"{path}: not the index of a store (format {version!r}, expected {FORMAT})")
    checksum = given.pop("sha256", None)
    if checksum != _hash(given):
        raise DataError(f"{path}: damaged (it does not match its own checksum); {REMEDY}")
    fields = JsonFields(given, where=str(path))
    width = fields.integer("width")
    if width not in IDS:
        fields.reject("width", width, " or ".join(map(str, IDS)))
    return StoreIndex(
        width=width,
        tokenizer=fields.text("tokenizer"),
        splits={name: tuple(_part(each, str(path)) for each in parts) for name, parts in given["splits"].items()},
        facts=given["facts"],
    )


def _part(given: Any, where: str) -> PartEntry:
    fields = JsonFields(given, where=where)
    name = fields.text("name")
    if PART_NAME.fullmatch(name) is None:
        fields.reject("name", name, "the name of a part")
    return PartEntry(name=name, tokens=fields.integer("tokens", most=MAX_TOKENS), sha256=fields.text("sha256"))


def open_store(folder: Path) -> PreparedText:
    """A store by its index; no part is read. Raises DataError for one that is unfinished or lacks a part."""
    index = read_index(folder)
    there = {entry.name for entry in os.scandir(folder)}
    missing = [part.name for parts in index.splits.values() for part in parts if part.name not in there]
    if missing:
        more = f" and {len(missing) - 1:,} more" if len(missing) > 1 else ""
        raise DataError(f"{folder / missing[0]}: missing{more}; {REMEDY}")
    path = folder / TOKENIZER
    tokenizer = Tokenizer.from_json(read_within(path, "tokenizer-bytes").decode(), where=str(path))
    if tokenizer.content_hash != index.tokenizer:
        raise DataError(f"{path}: not the tokenizer with which {folder} was prepared")
    return PreparedText(
        name=str(folder),
        splits={name: stream_of(folder, parts, index.width) for name, parts in index.splits.items()},
        digests=index.digests(),
        tokenizer=tokenizer,
    )


def stream_of(folder: Path, parts: Iterable[PartEntry], width: int) -> PartStream:
    """The stream of some parts."""
    return PartStream([StoredPart(folder / part.name, part, width) for part in parts])


def block_digests(data: memoryview) -> bytes:
    """The checksums of the blocks of some bytes that begin with a block."""
    return b"".join(hashlib.sha256(data[at : at + BLOCK]).digest() for at in range(0, len(data), BLOCK))
