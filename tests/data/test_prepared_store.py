"""Prepared stores: the same parts from any number of workers and after any interruption, checked when they are read."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.data.batching import Blocks
from headway.data.prepared_store import (
    BLOCK,
    PartEntry,
    PartStream,
    StoredPart,
    StoreIndex,
    open_store,
    read_index,
)
from headway.data.prepared_text import find_prepared
from headway.data.store_documents import InputReading
from headway.data.store_units import StoreSettings
from headway.data.store_writer import prepare_store, verify_store
from headway.data.token_stream import windows_of
from headway.data.tokenizers import ByteBpe, Characters, Tokenizer
from headway.errors import ConfigError, DataError

WORDS = ["a", "dog", "and", "the", "cat", "sat", "on", "one", "mat", "while", "rain", "fell", "élan", "naïve"]


def text_of(lines: int, seed: int = 0) -> str:
    draw = random.Random(seed)
    return "".join(" ".join(draw.choices(WORDS, k=draw.randint(0, 12))) + "\n" for _ in range(lines))


def settings(**changes: object) -> StoreSettings:
    return StoreSettings(**{"part_bytes": 5_000, "tokenizer": ByteBpe(vocab=300, fit=True), **changes})


def decoded(store: Path, split: str) -> str:
    opened = open_store(store)
    assert opened.tokenizer is not None
    return "".join(opened.tokenizer.decode(piece.tolist()) for piece in opened.splits[split].pieces())


def files_of(store: Path) -> dict[str, bytes]:
    return {path.relative_to(store).as_posix(): path.read_bytes() for path in store.rglob("*") if path.is_file()} | {
        ".lock": b""
    }


def write_rows(path: Path, texts: list[object]) -> Path:
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    return path


# --- any number of workers -----------------------------------------------------------------------------------------


def test_any_number_of_workers_gives_the_same_store_and_the_text_is_all_there(tmp_path):
    text = text_of(2_000)
    source = tmp_path / "book.txt"
    source.write_text(text)
    reports = {n: prepare_store(source, tmp_path / f"s{n}", settings(), workers=n) for n in (1, 2, 4)}
    assert len({report.index.digest for report in reports.values()}) == 1
    assert reports[1].parts > 10
    assert files_of(tmp_path / "s1") == files_of(tmp_path / "s2") == files_of(tmp_path / "s4")
    train, val = decoded(tmp_path / "s1", "train"), decoded(tmp_path / "s1", "val")
    assert train + val == text
    assert train.endswith("\n")
    assert 0.08 < len(val) / len(text) < 0.11


FORMS = ("jsonl", "jsonl.gz", "tsv", "parquet", "txt.gz", "txt")


@pytest.mark.parametrize("form", FORMS)
def test_each_form_is_read_whole(form, tmp_path):
    rows = [line for line in text_of(800).splitlines() if line.strip()]
    path = tmp_path / f"rows.{form}"
    if form == "parquet":
        pytest.importorskip("pyarrow")
        import pyarrow as pa
        import pyarrow.parquet as pq

        pq.write_table(pa.table({"text": rows}), path, row_group_size=100)
    else:
        content = "".join(f"{line}\n" for line in rows)
        if form.startswith("jsonl"):
            content = "".join(json.dumps({"text": line}) + "\n" for line in rows)
        if form == "tsv":
            content = "number\ttext\n" + "".join(f"{n}\t{line}\n" for n, line in enumerate(rows))
        path.write_bytes(gzip.compress(content.encode()) if form.endswith(".gz") else content.encode())
    report = prepare_store(path, tmp_path / "store", settings(), workers=2)
    assert report.parts > (1 if form == "txt.gz" else 3)  # a compressed text is read in pieces of a megabyte
    both = decoded(tmp_path / "store", "train") + decoded(tmp_path / "store", "val")
    assert sorted(both.splitlines()) == sorted(rows)
    assert verify_store(tmp_path / "store") == []


def test_a_folder_is_read_by_split_or_one_file_after_another(tmp_path):
    shards, named = tmp_path / "shards", tmp_path / "named"
    for folder in (shards, named):
        folder.mkdir()
    for n in range(5):
        (shards / f"{n}.txt").write_text(f"file {n} without a line end")
        write_rows(named / f"train-0000{n}-of-00005.jsonl", [f"train {n}"])
    write_rows(named / "validation-00000.jsonl", ["held out"])
    (shards / "notes.pdf").write_bytes(b"%PDF")
    report = prepare_store(shards, tmp_path / "s1", settings(part_bytes=60))
    assert report.left_out == ("notes.pdf",)
    both = decoded(tmp_path / "s1", "train") + decoded(tmp_path / "s1", "val")
    assert both == "".join(f"file {n} without a line end\n" for n in range(5))
    prepare_store(named, tmp_path / "s2", settings())
    assert decoded(tmp_path / "s2", "train") == "".join(f"train {n}\n" for n in range(5))
    assert decoded(tmp_path / "s2", "val") == "held out\n"


@given(
    lines=st.lists(st.text(st.sampled_from("ab é\u2028"), max_size=30), min_size=2, max_size=60),
    part_bytes=st.integers(1, 400),
    ends=st.booleans(),
)
def test_a_text_is_cut_at_line_ends_and_nothing_is_lost(lines, part_bytes, ends, tmp_path_factory):
    from headway.data.store_documents import documents
    from headway.data.store_input import plan_input

    path = tmp_path_factory.mktemp("text") / "book.txt"
    text = "\n".join(lines) + ("\n" if ends else "")
    if len(text.encode()) < 3:
        return
    path.write_text(text, newline="")
    plan = plan_input(path, part_bytes=part_bytes, val_bytes=1 << 20)
    read = ["".join("".join(each) for each in documents(unit, InputReading(), print)) for unit in plan.units]
    together = "".join(read)
    single = "\n" not in text[:-1]  # one line is cut at a character, and gets a line end at the cut
    assert together.replace("\n", "") == text.replace("\n", "")
    if not single:
        assert together == text + ("" if text.endswith("\n") else "\n")
    assert {unit.split for unit in plan.units} == {"train", "val"}


# --- interruptions -------------------------------------------------------------------------------------------------

PREPARE = """
import sys
from pathlib import Path
from tests.data.test_prepared_store import settings
from headway.data.store_writer import prepare_store
if __name__ == "__main__":
    report = prepare_store(Path(sys.argv[1]), Path(sys.argv[2]), settings(), workers=int(sys.argv[3]))
    print(report.index.digest)
"""


def killed_until_done(source: Path, store: Path, *, kills: int, workers: int) -> str:
    draw = random.Random(kills)
    words = [sys.executable, "-c", PREPARE, str(source), str(store), str(workers)]
    root = Path(__file__).parents[2]
    for number in range(kills):
        before = len(list(store.glob("part-*")))
        process = subprocess.Popen(words, cwd=root, stdout=subprocess.PIPE, text=True)
        begun = time.monotonic()
        while len(list(store.glob("part-*"))) <= before + number % 2 and process.poll() is None:
            assert time.monotonic() - begun < 120
            time.sleep(0.005)
        time.sleep(draw.random() * 0.05)
        process.send_signal(signal.SIGKILL)
        process.communicate()
    return subprocess.run(words, cwd=root, capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.parametrize(("kills", "workers"), [(2, 1), (2, 2), pytest.param(40, 2, marks=pytest.mark.slow)])
def test_killed_and_started_again_gives_the_same_store(kills, workers, tmp_path):
    source = tmp_path / "book.txt"
    source.write_text(text_of(3_000 if kills < 10 else 20_000))
    whole = prepare_store(source, tmp_path / "whole", settings())
    assert killed_until_done(source, tmp_path / "store", kills=kills, workers=workers) == whole.index.digest
    before, after = files_of(tmp_path / "whole"), files_of(tmp_path / "store")
    assert before == after


def test_the_same_command_again_does_nothing_and_another_one_is_refused(tmp_path):
    source = tmp_path / "book.txt"
    source.write_text(text_of(500))
    first = prepare_store(source, tmp_path / "store", settings())
    again = prepare_store(source, tmp_path / "store", settings(), workers=2)
    assert (again.made, again.index) == (0, first.index)
    with pytest.raises(ConfigError, match=r"begun with part_bytes=5000, got 4000; pass --out for another folder"):
        prepare_store(source, tmp_path / "store", settings(part_bytes=4_000))
    os.utime(source, (1, 1))
    with pytest.raises(ConfigError, match=r"book\.txt has changed since"):
        prepare_store(source, tmp_path / "store", settings())
    with pytest.raises(ConfigError, match="is not a prepared store"):
        prepare_store(source, tmp_path, settings())


# --- reading -------------------------------------------------------------------------------------------------------


@given(
    sizes=st.lists(st.integers(0, 30), min_size=1, max_size=6).filter(any),
    starts=st.lists(st.integers(0, 200), max_size=8),
    length=st.integers(1, 50),
)
def test_windows_over_parts_are_those_of_one_array(sizes, starts, length):
    ids = np.random.default_rng(0).integers(0, 60_000, sum(sizes)).astype(np.uint16)
    places = np.concatenate([[0], np.cumsum(sizes)])

    class Part(StoredPart):
        def read(self, first: int, last: int) -> np.ndarray:
            return ids[self.begin + first : self.begin + last]

    parts = []
    for begin, size in zip(places, sizes, strict=False):
        parts.append(Part(Path("part"), PartEntry(name="part-000000", tokens=size, sha256=""), 2))
        parts[-1].begin = int(begin)
    stream = PartStream(parts)
    at = np.asarray([start % len(ids) for start in starts], np.int64)
    assert stream.total == len(ids)
    assert (stream.windows(at, length) == windows_of(ids, at, length)).all()


def test_a_start_reads_the_index_only_and_damage_is_found_where_it_is_read(tmp_path):
    source = tmp_path / "book.txt"
    source.write_text(text_of(2_000))
    store = tmp_path / "store"
    prepare_store(source, store, settings())
    part = store / "part-000003" / "ids.u16"
    content = bytearray(part.read_bytes())
    content[100] ^= 1
    part.write_bytes(content)
    train = open_store(store).splits["train"]
    before = sum(each.tokens for each in read_index(store).splits["train"][:3])
    train.windows(np.asarray([0]), before)
    with pytest.raises(DataError, match=r"part-000003: ids\.u16 is damaged at byte 0; `headway prepare` .* --verify"):
        train.windows(np.asarray([before]), 1)
    assert len(verify_store(store)) == 1
    digest = read_index(store).digest
    part.write_bytes(content[:-2])
    with pytest.raises(DataError, match=r"part-000003: ids\.u16 has [0-9,]+ bytes, expected"):
        open_store(store).splits["train"].windows(np.asarray([before]), 1)
    report = prepare_store(source, store, settings(), verify=True)
    assert (report.made, report.index.digest, verify_store(store)) == (1, digest, [])


def test_a_block_is_checked_once(tmp_path, monkeypatch):
    source = tmp_path / "book.txt"
    source.write_text(text_of(60_000))
    prepare_store(source, tmp_path / "store", settings(part_bytes=1 << 26))
    (part,) = open_store(tmp_path / "store").splits["train"].parts
    assert part.entry.tokens * 2 > 2 * BLOCK
    part.read(0, 10)
    assert part._good.tolist()[:2] == [True, False]
    part.read(BLOCK // 2 - 1, BLOCK // 2 + 1)
    assert part._good.tolist()[:3] == [True, True, False]


def test_missing_parts_and_a_damaged_index_are_named(tmp_path):
    source, store = tmp_path / "book.txt", tmp_path / "store"
    source.write_text(text_of(500))
    prepare_store(source, store, settings())
    (store / "part-000001").rename(tmp_path / "elsewhere")
    with pytest.raises(DataError, match="part-000001: missing; "):
        open_store(store)
    index = store / "index.json"
    index.write_text(index.read_text().replace('"tokens": ', '"tokens": 1', 1))
    with pytest.raises(DataError, match=r"index\.json: damaged"):
        open_store(store)
    index.unlink()
    with pytest.raises(DataError, match="is not finished"):
        find_prepared(str(store))
    report = prepare_store(source, store, settings())
    assert report.made == 1
    other = Tokenizer.train(Characters(), ["abc"], specials=())
    (store / "tokenizer.json").write_text(other.to_json())
    with pytest.raises(DataError, match=r"tokenizer\.json: not the tokenizer with which"):
        open_store(store)


# --- what is left out ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("workers", [1, 3])
def test_of_equal_documents_the_first_is_kept(workers, tmp_path):
    texts = [f"text number {n % 70 if n < 300 else n} of some words" for n in range(400)]
    source = write_rows(tmp_path / "rows.jsonl", texts)
    report = prepare_store(source, tmp_path / "store", settings(part_bytes=900, deduplicate=True), workers=workers)
    assert report.index.facts["duplicates"] == 230
    assert report.parts > 5
    both = decoded(tmp_path / "store", "train") + decoded(tmp_path / "store", "val")
    assert both.splitlines() == texts[:70] + texts[300:]


def test_rows_without_a_text_are_an_error_or_counted_and_named(tmp_path):
    source = write_rows(tmp_path / "rows.jsonl", [f"row {n} has some words" for n in range(300)])
    lines = source.read_text().splitlines()
    lines[20], lines[150], lines[151] = '{"text": 5}', '{"title": "x"}', '{"text": '
    lines[30] = '{"text": "  "}'
    source.write_text("\n".join(lines))
    with pytest.raises(DataError, match=r"rows\.jsonl: line 21: text is a int, expected a string"):
        prepare_store(source, tmp_path / "s1", settings())
    skipping = settings(reading=InputReading(skip_bad=True), part_bytes=1_000)
    report = prepare_store(source, tmp_path / "s2", skipping, workers=2)
    facts = report.index.facts
    assert (facts["bad"], facts["empty"], facts["documents"]) == (3, 1, 296)
    assert "line 21: text is a int" in report.examples[0]


def test_bad_bytes_are_named_by_their_place(tmp_path):
    source = tmp_path / "book.txt"
    source.write_bytes(text_of(500).encode() + b"a caf\xe9 here\n" + text_of(200).encode())
    place = r"book\.txt: after byte [0-9,]+: line [0-9]+, byte 6: invalid UTF-8 \(0xE9\)"
    bpe = Tokenizer.train(ByteBpe(vocab=300, fit=True), [text_of(100)], specials=())
    with pytest.raises(DataError, match=place):
        prepare_store(source, tmp_path / "store", settings(), tokenizer=bpe, workers=2)
    replaced = settings(reading=InputReading(errors="replace"))
    prepare_store(source, tmp_path / "other", replaced, tokenizer=bpe)
    assert "a caf\ufffd here\n" in decoded(tmp_path / "other", "train")


def test_a_character_that_the_tokenizer_lacks_is_named_with_its_file(tmp_path):
    source = tmp_path / "book.txt"
    source.write_text(text_of(500) + "§\n" * 50)
    with pytest.raises(DataError, match=r"book\.txt: character '§' .* --data\.tokenizer byte-bpe has all"):
        prepare_store(source, tmp_path / "store", settings(tokenizer=Characters()))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("empty.txt", "", "expected at least 2"),
        ("one.jsonl", '{"text": "a"}\n', "one line, expected at least 2"),
        ("spaces.txt", "   \n" * 40, "no words|tokens, expected at least 2|vocabulary"),
    ],
)
def test_too_little_text_is_one_clear_line(name, content, message, tmp_path):
    (tmp_path / name).write_text(content)
    with pytest.raises(DataError, match=message):
        prepare_store(tmp_path / name, tmp_path / "store", settings())


def test_a_store_of_wide_ids_for_a_large_vocabulary(tmp_path):
    source = tmp_path / "book.txt"
    characters = "".join(chr(0x4E00 + n) if n < 20_000 else chr(0x20000 + n - 20_000) for n in range(66_000))
    source.write_text("\n".join(characters[n : n + 50] for n in range(0, len(characters), 50)) + "\n" + "一\n" * 10_000)
    report = prepare_store(source, tmp_path / "store", settings(part_bytes=100_000, tokenizer=Characters()))
    assert report.index.width == 4
    assert decoded(tmp_path / "store", "train").startswith(characters[:50])


def sparse_store(folder: Path, parts: int, tokens: int) -> None:
    """A store whose parts have zeros alone, which take no place on disk."""
    folder.mkdir()
    whole, rest = divmod(2 * tokens, BLOCK)
    digests = hashlib.sha256(bytes(BLOCK)).digest() * whole
    digests += hashlib.sha256(bytes(rest)).digest() if rest else b""
    entries = []
    for number in range(parts):
        part = folder / f"part-{number:06d}"
        part.mkdir()
        with (part / "ids.u16").open("wb") as file:
            file.truncate(2 * tokens)
        (part / "blocks.sha256").write_bytes(digests)
        entries.append(PartEntry(name=part.name, tokens=tokens, sha256=hashlib.sha256(digests).hexdigest()))
    tokenizer = Tokenizer.train(ByteBpe(vocab=256), ["text"], specials=())
    (folder / "tokenizer.json").write_text(tokenizer.to_json())
    splits = {"train": tuple(entries), "val": tuple(entries[:1])}
    (folder / "index.json").write_text(StoreIndex(width=2, tokenizer=tokenizer.content_hash, splits=splits).text())


def test_a_batch_of_1e11_tokens_opens_the_parts_of_its_rows_alone(tmp_path):
    sparse_store(tmp_path / "store", parts=400, tokens=250_000_000)
    stream = open_store(tmp_path / "store").splits["train"]
    assert stream.total == 10**11
    order = Blocks(stream.total, 1024, 8, seed=3)
    batches = order.epoch(5)
    assert stream.windows(batches[len(batches) // 2], 1025).shape == (8, 1025)
    opened = [part for part in stream.parts if "_ids" in vars(part)]
    assert 0 < len(opened) <= 8
    assert sum(int(part._good.sum()) for part in opened) <= 8 * 2, "a row of 2 KiB lies in one block or two"


def test_a_process_makes_the_tokenizer_of_a_store_once_and_notices_another_one(tmp_path, monkeypatch):
    """Each one that is made keeps megabytes, which grew with the number of parts."""
    source, store = tmp_path / "book.txt", tmp_path / "store"
    source.write_text(text_of(3_000))
    made = []
    original = Tokenizer.from_json
    monkeypatch.setattr(Tokenizer, "from_json", lambda *given, **named: made.append(1) or original(*given, **named))
    assert prepare_store(source, store, settings()).parts > 3
    assert len(made) <= 2  # of the store as a whole, and of its units
    before = open_store(store).tokenizer
    shutil.rmtree(store)
    prepare_store(source, store, settings(), tokenizer=Tokenizer.train(ByteBpe(vocab=256), ["text"], specials=()))
    opened = open_store(store)
    assert opened.tokenizer.content_hash != before.content_hash
    assert opened.tokenizer.decode(next(opened.splits["train"].pieces()).tolist()) in source.read_text()
