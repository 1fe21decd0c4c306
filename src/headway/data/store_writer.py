"""Preparing a store: each unit of the input is tokenised and committed as parts, by any number of processes.

What a part holds follows from the input and the settings alone, so that any number of workers, and any interruption,
gives the same files. A part is a folder that appears by a rename; a run that was killed goes on with what is missing.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from headway.data.duplicates import DUPLICATES, HASHES, find_duplicates, hashes_path
from headway.data.prepared_store import INDEX, PLAN, TOKENIZER, PartEntry, StoreIndex, read_index, stream_of
from headway.data.store_documents import sample
from headway.data.store_input import InputPlan, inputs_of, plan_input
from headway.data.store_units import StoreSettings, StoreWork, width_of
from headway.data.store_workers import each_unit
from headway.data.tokenizers import Tokenizer
from headway.documents import parse_json, read_within
from headway.errors import ConfigError, DataError
from headway.storage.commit import commit_file, discard, remove_stale_drafts
from headway.storage.locks import LOCK, locked
from headway.storage.manifest import json_text, problems, read_manifest


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
                for _ in stream_of(store, [entry], index.width).pieces():
                    pass
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
    before, now = there.get("settings", {}), parse_json(json.dumps(wanted["settings"]), str(path))
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
