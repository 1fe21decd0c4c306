"""The units of a store: each is tokenised, and committed as one or more parts, by whichever process takes it."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from headway.data.duplicates import duplicates_of, hash_documents
from headway.data.prepared_store import BLOCK, BLOCKS, IDS, TOKENIZER, block_digests
from headway.data.store_documents import InputReading, documents, ignored, text_bytes
from headway.data.store_input import InputUnit
from headway.data.tokenizers import Tokenizer, TokenizerConfig
from headway.data.vocabularies import ByteBpe
from headway.documents import read_within
from headway.errors import DataError, UnknownCharacterError
from headway.storage.commit import StagedFolder, commit_folder, discard
from headway.storage.manifest import DamagedError, read_manifest

TRAINED = ByteBpe(vocab=32_000, fit=True)
ENCODED_AT_ONCE = 1 << 16  # characters of documents that are handed to the tokenizer together
Report = Callable[[int, int], None]  # bytes of the text that were tokenised since the last call, and tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreSettings:
    """How a store is prepared. All of it decides what the parts hold."""

    reading: InputReading = field(default_factory=InputReading)
    tokenizer: TokenizerConfig = TRAINED  # what is trained, where none is given
    deduplicate: bool = False
    part_bytes: int = 1 << 26  # of text; of files that cannot be cut, of their text
    val_bytes: int = 1 << 24  # at most, where the input has no val split
    trained_on: int = 1 << 30  # bytes of text that a tokenizer is trained on, at most


@dataclass(frozen=True, slots=True)
class StoreWork:
    """A store that is being prepared, as its workers see it."""

    store: Path
    units: tuple[InputUnit, ...]
    settings: StoreSettings

    def part(self, unit: int, piece: int) -> Path:
        """The folder of a piece of a unit; only units of unknown size have more than one."""
        return self.store / (f"part-{unit:06d}" if piece == 0 else f"part-{unit:06d}.{piece:03d}")

    def parts(self, unit: int) -> list[tuple[Path, Mapping[str, Any]]]:
        """The parts of a unit that are there, in order, with their facts."""
        found: list[tuple[Path, Mapping[str, Any]]] = []
        while (path := self.part(unit, len(found))).is_dir() and not (found and found[-1][1]["last"]):
            try:
                found.append((path, read_manifest(path).facts))
            except DamagedError:
                discard(path)
                break
        return found

    def done(self, unit: int) -> bool:
        """Whether all parts of a unit are there."""
        parts = self.parts(unit)
        return bool(parts) and bool(parts[-1][1]["last"])

    def encode(self, unit: int, report: Report) -> None:
        """Tokenise a unit and commit what is missing of its parts. Raises DataError."""
        path = self.store / TOKENIZER
        tokenizer = _tokenizer(read_within(path, "tokenizer-bytes").decode(), str(path))
        encoder = UnitEncoder(self, unit, tokenizer, report)
        try:
            encoder.run(len(self.parts(unit)))
        except UnknownCharacterError as error:
            where = self.units[unit].slices[0].path
            raise DataError(f"{where}: {error}; --data.tokenizer byte-bpe has all characters") from None

    def hash(self, unit: int, report: Report) -> None:
        """Hash the documents of a unit, to find equal ones."""
        hash_documents(self.store, unit, documents(self.units[unit], self.settings.reading, ignored), report)


@lru_cache(maxsize=1)
def _tokenizer(text: str, where: str) -> Tokenizer:
    """The tokenizer of a store, made once in each process: memory of the library's is not given back."""
    return Tokenizer.from_json(text, where=where)


class UnitEncoder:
    """One unit on its way to its parts."""

    def __init__(self, work: StoreWork, unit: int, tokenizer: Tokenizer, report: Report) -> None:
        self.work, self.unit, self.tokenizer, self.report = work, unit, tokenizer, report
        self.streamed = work.units[unit].streamed
        self.width = width_of(tokenizer)
        self.facts: Counter[str] = Counter()
        self.example = ""

    def run(self, there: int) -> None:
        """Commit the parts after those that are there."""
        texts = self._texts()
        following = next(texts, None)
        piece = 0
        while True:
            pending = chain([] if following is None else [following], texts)
            following = self._pass_over(pending) if piece < there else self._commit(piece, pending)
            if following is None:
                return
            piece += 1

    def _pass_over(self, texts: Iterator[str]) -> str | None:
        """Read what a part that is there was made of -> the text after it."""
        size, following = 0, None
        for text in texts:
            if self._full(size):
                following = text
                break
            size += text_bytes(text)
        self._reset()
        return following

    def _commit(self, piece: int, texts: Iterator[str]) -> str | None:
        """Commit a part -> the text after it, or None at the end of the input."""
        facts: dict[str, Any] = {}
        following: list[str] = []
        with commit_folder(self.work.part(self.unit, piece), shared=True, facts=facts) as draft:
            blocks = BlockWriter(draft, IDS[self.width])
            size = unknown = tokens = 0

            def ids() -> Iterator[bytes]:
                nonlocal size, unknown, tokens
                for found, count in self._encoded(texts, following):
                    size, tokens = size + count, tokens + len(found)
                    if self.tokenizer.unknown is not None:
                        unknown += int(np.count_nonzero(found == self.tokenizer.unknown))
                    self.report(count, len(found))
                    yield found.tobytes()

            sha256 = blocks.write(ids())
            facts |= {"unit": self.unit, "split": self.work.units[self.unit].split, "tokens": tokens, "bytes": size}
            facts |= {"unknown": unknown, "blocks": sha256, "last": not following, "example": self.example}
            facts |= {key: self.facts[key] for key in ("documents", "empty", "duplicates", "bad")}
        self._reset()
        return following[0] if following else None

    def _reset(self) -> None:
        self.facts.clear()
        self.example = ""

    def _full(self, size: int) -> bool:
        return self.streamed and size >= self.work.settings.part_bytes

    def _encoded(self, texts: Iterator[str], following: list[str]) -> Iterator[tuple[np.ndarray[Any, Any], int]]:
        """The ids of texts up to the size of a part, with their bytes; the text after them goes to `following`."""
        held: list[str] = []
        characters = size = total = 0
        dtype = np.dtype(f"<u{self.width}")

        def encode() -> tuple[np.ndarray[Any, Any], int]:
            found = self.tokenizer.encode_batch(held)
            return np.fromiter(chain.from_iterable(found), dtype, sum(map(len, found))), size

        for text in texts:
            if self._full(total):
                following.append(text)
                break
            if held and characters + len(text) > ENCODED_AT_ONCE:
                yield encode()
                held, characters, size = [], 0, 0
            held.append(text)
            count = text_bytes(text)
            characters, size, total = characters + len(text), size + count, total + count
        if held:
            yield encode()

    def _texts(self) -> Iterator[str]:
        """The chunks of all documents that are kept; counts those that are not."""
        skipped = duplicates_of(self.work.store, self.unit) if self.work.settings.deduplicate else frozenset()
        for number, document in enumerate(documents(self.work.units[self.unit], self.work.settings.reading, self._bad)):
            if number in skipped:
                self.facts["duplicates"] += 1
                for _ in document:
                    pass
                continue
            empty = True
            for chunk in document:
                if empty and chunk.isspace():
                    continue
                empty = False
                yield chunk
            self.facts["empty" if empty else "documents"] += 1

    def _bad(self, message: str) -> None:
        self.facts["bad"] += 1
        self.example = self.example or message


class BlockWriter:
    """Writes ids with the checksums of their blocks."""

    def __init__(self, draft: StagedFolder, name: str) -> None:
        self.draft, self.name = draft, name

    def write(self, pieces: Iterator[bytes]) -> str:
        """Add both files -> the checksum of the checksums."""
        digests, rest = bytearray(), bytearray()

        def passed() -> Iterator[bytes]:
            for piece in pieces:
                rest.extend(piece)
                whole = len(rest) - len(rest) % BLOCK
                if whole:
                    digests.extend(block_digests(memoryview(bytes(rest[:whole]))))
                    del rest[:whole]
                yield piece

        self.draft.pieces(self.name, passed())
        digests.extend(block_digests(memoryview(bytes(rest))))
        self.draft.pieces(BLOCKS, [bytes(digests)])
        return hashlib.sha256(digests).hexdigest()


def width_of(tokenizer: Tokenizer) -> int:
    """The bytes of an id."""
    return 2 if tokenizer.size <= 1 << 16 else 4
