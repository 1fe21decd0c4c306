"""Preparing a store: each unit of the input is tokenised and committed as parts, by any number of processes.

What a part holds follows from the input and the settings alone, so that any number of workers, and any interruption,
gives the same files. A part is a folder that appears by a rename; a run that was killed goes on with what is missing.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from headway.data.duplicates import DUPLICATES, HASHES, duplicates_of, find_duplicates, hash_documents, hashes_path
from headway.data.prepared_store import (
    BLOCK,
    BLOCKS,
    IDS,
    INDEX,
    PLAN,
    TOKENIZER,
    PartEntry,
    StoreIndex,
    block_digests,
    read_index,
    stream_of,
)
from headway.data.store_input import (
    InputPlan,
    InputReading,
    InputUnit,
    documents,
    inputs_of,
    plan_input,
    sample,
    text_bytes,
)
from headway.data.store_workers import each_unit
from headway.data.tokenizers import Tokenizer, TokenizerConfig
from headway.data.vocabularies import ByteBpe
from headway.documents import parse_json, read_within
from headway.errors import ConfigError, DataError, UnknownCharacterError
from headway.storage.commit import StagedFolder, commit_file, commit_folder, discard, remove_stale_drafts
from headway.storage.locks import LOCK, locked
from headway.storage.manifest import DamagedError, json_text, problems, read_manifest

ENCODED_AT_ONCE = 1 << 16  # characters of documents that are handed to the tokenizer together
TRAINED = ByteBpe(vocab=32_000, fit=True)
Report = Callable[[int, int], None]  # bytes of the text that were tokenised since the last call, and tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreSettings:
    """How a store is prepared. All of it decides what the parts hold."""

    reading: InputReading = field(default_factory=InputReading)
    tokenizer: TokenizerConfig = field(
        default_factory=lambda: ByteBpe(vocab=32_000, fit=True)
    )  # what is trained, where none is given
    deduplicate: bool = False
    part_bytes: int = 1 << 26  # of text; of files that cannot be cut, of their text
    val_bytes: int = 1 << 24  # at most, where the input has no val split
    trained_on: int = 1 << 30  # bytes of text that a tokenizer is trained on, at most


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedReport:
    """What was prepared."""

    folder: Path
    index: StoreIndex
    vocabulary: int
    seconds: float
    made: int  # parts that were not there before
    left_out: tuple[str, ...]  # names of files of the folder that are no data
    examples: tuple[str, ...]  # errors of rows that were skipped

    @property
    def parts(self) -> int:
        """The number of parts."""
        return sum(map(len, self.index.splits.values()))


class PrepareWatcher:
    """Receives the progress; this one ignores it."""

    def began(self, what: str, total: int) -> None:
        """A phase began; `total` is its bytes, 0 if that is not known."""

    def advanced(self, count: int, tokens: int) -> None:
        """Bytes and tokens more."""

    def note(self, text: str) -> None:
        """Something to say."""


def prepare_store(
    spec: Path,
    store: Path,
    settings: StoreSettings | None = None,
    *,
    tokenizer: Tokenizer | None = None,
    workers: int = 1,
    verify: bool = False,
    watcher: PrepareWatcher | None = None,
) -> PreparedReport:
    """Prepare the text of a file or folder as a store, or go on where an earlier call was interrupted.

    `tokenizer` is used instead of training one. With `verify`, parts that are there are read and made again if they are
    damaged. Raises ConfigError for a store of another input or other settings, DataError for input that cannot be read.
    """
    settings, watcher, started = settings or StoreSettings(), watcher or PrepareWatcher(), time.perf_counter()
    plan = plan_input(spec, part_bytes=settings.part_bytes, val_bytes=settings.val_bytes)
    if store.exists() and not store.is_dir():
        raise ConfigError(f"{store}: not a folder")
    if store.is_dir() and not (store / PLAN).exists() and any(each.name != LOCK for each in store.iterdir()):
        raise ConfigError(f"{store} exists and is not a prepared store; pass --out for another folder")
    with locked(store):
        remove_stale_drafts(store)
        _expect_same(store, _description(plan, settings, tokenizer))
        known = _tokenizer(store, plan, settings, tokenizer, watcher)
        if verify:
            _discard_damaged(store, watcher)
        work = StoreWork(store, plan.units, settings)
        made = _prepare_parts(work, workers, watcher)
        index = _commit_index(work, known)
    facts = [read_manifest(store / part.name).facts for parts in index.splits.values() for part in parts]
    return PreparedReport(
        folder=store,
        index=index,
        vocabulary=known.size,
        seconds=time.perf_counter() - started,
        made=made,
        left_out=plan.left_out,
        examples=tuple(each["example"] for each in facts if each.get("example"))[:3],
    )


def verify_store(store: Path) -> list[str]:
    """What is wrong with a store: each part that is missing or damaged; [] if it is intact. Raises DataError."""
    index = read_index(store)
    wrong = []
    for parts in index.splits.values():
        for entry in parts:
            try:
                for part in stream_of(store, [entry], index.width).parts:
                    part.read(0, entry.tokens)
            except DataError as error:
                wrong.append(str(error))
    return wrong


# --- what the store is made of -------------------------------------------------------------------------------------


def _description(plan: InputPlan, settings: StoreSettings, tokenizer: Tokenizer | None) -> dict[str, Any]:
    return {
        "settings": {
            **asdict(settings),
            "tokenizer": tokenizer.content_hash if tokenizer else repr(settings.tokenizer),
        },
        "files": inputs_of(plan),
    }


def _expect_same(store: Path, wanted: dict[str, Any]) -> None:
    """Write what the store is made of, or compare it. Raises ConfigError naming what differs."""
    path = store / PLAN
    if not path.exists():
        commit_file(path, json_text(wanted))
        return
    there = parse_json(read_within(path, "document-bytes"), str(path))
    remedy = f"pass --out for another folder, or remove {store}"
    before, now = there.get("settings", {}), json.loads(json.dumps(wanted["settings"]))
    for key in sorted(before.keys() | now.keys()):
        if before.get(key) != now.get(key):
            raise ConfigError(f"{store} was begun with {key}={before.get(key)!r}, got {now.get(key)!r}; {remedy}")
    for name in sorted(there.get("files", {}).keys() | wanted["files"].keys()):
        old, new = there["files"].get(name), wanted["files"].get(name)
        if old != new:
            what = "is new" if old is None else "is missing now" if new is None else "has changed"
            raise ConfigError(f"{name} {what} since {store} was begun; {remedy}")


def _tokenizer(
    store: Path, plan: InputPlan, settings: StoreSettings, given: Tokenizer | None, watcher: PrepareWatcher
) -> Tokenizer:
    path = store / TOKENIZER
    if path.exists():
        return Tokenizer.from_json(read_within(path, "tokenizer-bytes").decode(), where=str(path))
    if given is None:
        watcher.began("training the tokenizer", 0)
        text = sample(plan.units, settings.reading, settings.trained_on)
        given = Tokenizer.train(settings.tokenizer, text, specials=())
    commit_file(path, given.to_json())
    return given


# --- units ---------------------------------------------------------------------------------------------------------


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
        tokenizer = Tokenizer.from_json(read_within(path, "tokenizer-bytes").decode(), where=str(path))
        encoder = UnitEncoder(self, unit, tokenizer, report)
        try:
            encoder.run(len(self.parts(unit)))
        except UnknownCharacterError as error:
            where = self.units[unit].slices[0].path
            raise DataError(f"{where}: {error}; --data.tokenizer byte-bpe has all characters") from None

    def hash(self, unit: int, report: Report) -> None:
        """Hash the documents of a unit, to find equal ones."""
        hash_documents(self.store, unit, documents(self.units[unit], self.settings.reading, _ignore), report)


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
        """Commit a part -> the text after it, None if there is none."""
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


def _ignore(message: str) -> None:
    """A row that is skipped is counted when it is encoded."""


# --- all of them ---------------------------------------------------------------------------------------------------


def _prepare_parts(work: StoreWork, workers: int, watcher: PrepareWatcher) -> int:
    """Tokenise the units that are missing -> how many."""
    missing = [number for number in range(len(work.units)) if not work.done(number)]
    if not missing:
        return 0
    discard(work.store / INDEX)
    if work.settings.deduplicate and not (work.store / DUPLICATES).is_dir():
        unknown = [n for n in range(len(work.units)) if not hashes_path(work.store, n).exists()]
        watcher.began("comparing documents", _bytes(work, unknown))
        each_unit(work, "hash", unknown, workers, watcher.advanced)
        find_duplicates(work.store, len(work.units))
    watcher.began("tokenising", _bytes(work, missing))
    each_unit(work, "encode", missing, workers, watcher.advanced)
    return len(missing)


def _bytes(work: StoreWork, units: list[int]) -> int:
    """The bytes of text of some units; 0 if that is not known."""
    some = [work.units[number] for number in units]
    return 0 if any(unit.streamed for unit in some) else sum(unit.bytes for unit in some)


def _discard_damaged(store: Path, watcher: PrepareWatcher) -> None:
    """Remove parts that are damaged, and the index where there are some."""
    for folder in sorted(store.glob("part-*")):
        wrong = problems(folder)
        if wrong:
            watcher.note(f"{folder}: {wrong[0]}; it is made again")
            discard(folder)


def _commit_index(work: StoreWork, tokenizer: Tokenizer) -> StoreIndex:
    splits: dict[str, list[PartEntry]] = {unit.split: [] for unit in work.units}
    facts: Counter[str] = Counter()
    for number, unit in enumerate(work.units):
        for path, found in work.parts(number):
            splits[unit.split].append(PartEntry(name=path.name, tokens=found["tokens"], sha256=found["blocks"]))
            facts.update({key: found[key] for key in ("bytes", "documents", "empty", "duplicates", "bad", "unknown")})
    index = StoreIndex(
        width=width_of(tokenizer),
        tokenizer=tokenizer.content_hash,
        splits={name: tuple(parts) for name, parts in splits.items()},
        facts=dict(facts),
    )
    for split in ("train", "val"):
        if index.tokens[split] < 2:
            raise DataError(f"{work.store}: the {split} split has {index.tokens[split]} tokens, expected at least 2")
    if not (work.store / INDEX).exists() or (work.store / INDEX).read_text() != index.text():
        commit_file(work.store / INDEX, index.text())
    for name in (HASHES, DUPLICATES):
        discard(work.store / name)
    return index
