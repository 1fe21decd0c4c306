from __future__ import annotations

import gzip
import json
import tracemalloc
from itertools import pairwise
from pathlib import Path

import pytest

from headway.data import files
from headway.data.parallel_files import languages
from headway.data.text_files import load_parallel, load_text
from headway.errors import DataError

SHARED = Path(__file__).parents[3] / "shared" / "data"


def fill(folder, **texts):
    """Files by name, with `_` for the last dot: fill(folder, train_en="a\\n")."""
    folder.mkdir(exist_ok=True)
    for name, text in texts.items():
        stem, ending = name.rsplit("_", 1)
        (folder / f"{stem}.{ending}").write_text(text, encoding="utf-8")
    return folder


def error(call, *arguments):
    with pytest.raises(DataError) as caught:
        call(*arguments)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_folder_has_every_split_with_both_sides(tmp_path):
    folder = fill(tmp_path, train_en="a\nb\n", train_de="x\ny\n", val_en="c\n", val_de="z\n", test_2016_flickr_en="d\n")
    (folder / "test_2016_flickr.de.gz").write_bytes(gzip.compress(b"q\n"))
    fill(tmp_path, blind_en="only one side\n", notes_txt="?")
    text = load_parallel(folder, "en", "de")
    assert set(text.splits) == {"train", "val", "test_2016_flickr"}
    assert list(text.pairs("train")) == list(text.pairs("train")) == [("a", "x"), ("b", "y")]
    assert list(text.pairs("test_2016_flickr")) == [("d", "q")]
    assert text.count("val") == 1
    assert list(load_parallel(folder, "de", "en").pairs("val")) == [("z", "c")]


def test_unequal_line_counts_name_both_files_and_both_counts(tmp_path):
    folder = fill(tmp_path, train_en="a\n" * 5, train_de="x\n" * 3)
    assert "train.en has 5 lines and" in error(load_parallel, folder, "en", "de")  # dividing reads them
    fill(tmp_path, val_en="c\n", val_de="z\n")
    message = f"{folder / 'train.en'} has 5 lines and {folder / 'train.de'} has 3"
    assert message in error(load_parallel(folder, "en", "de").count, "train")
    reverse = load_parallel(folder, "de", "en").pairs("train")
    assert [next(reverse) for _ in range(3)] == [("x", "a")] * 3
    assert "train.de has 3 lines and" in error(next, reverse)


def test_pairs_are_read_as_they_are_asked_for(tmp_path):
    folder = fill(
        tmp_path, train_en="a sentence\n" * 400_000, train_de="ein Satz\n" * 400_000, val_en="a\n", val_de="b\n"
    )
    tracemalloc.start()
    assert load_parallel(folder, "en", "de").count("train") == 400_000
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 40 * files.CHUNK  # all of them would need 70


def test_what_is_missing_is_named_beside_what_is_there(tmp_path):
    folder = fill(tmp_path, train_en="a\n", val_en="a\n", val_de="b\n")
    assert "no train.de or train.de.gz beside train.en; there are: train.en, val.de" in error(
        load_parallel, folder, "en", "de"
    )
    assert "no train.cs and train.fr, or train{.tsv,.csv,.jsonl,.parquet}; there are: train.en" in error(
        load_parallel, folder, "cs", "fr"
    )
    (folder / "train.en").unlink()
    assert "no train split; splits: val" in error(load_parallel, folder, "en", "de")
    assert "source and target are both 'en'" in error(load_parallel, folder, "en", "en")
    assert "nowhere: no such file or folder" in error(load_parallel, tmp_path / "nowhere", "en", "de")
    assert "a folder or a file that ends with .tsv" in error(load_parallel, folder / "val.en", "en", "de")
    fill(tmp_path, train_en="a\n", train_de="b\n")
    text = load_parallel(folder, "en", "de")
    assert "no split 'test'; there are: train, val" in error(text.pairs, "test")
    (folder / "train.de.gz").write_bytes(gzip.compress(b"b\n"))
    assert "train.de and train.de.gz are the same split" in error(load_parallel, folder, "en", "de")


def test_an_empty_set_is_refused(tmp_path):
    text = load_parallel(fill(tmp_path, train_en="a\n", train_de="b\n", val_en="", val_de=""), "en", "de")
    assert "val.en and" in error(text.count, "val")
    assert "no lines, expected at least 1 pair" in error(lambda: list(text.pairs("val")))
    (tmp_path / "x.tsv").write_text("")
    assert "x.tsv: no pairs, expected at least 1" in error(load_parallel, tmp_path / "x.tsv", "en", "de")


@pytest.mark.parametrize(("count", "val"), [(2, 1), (19, 1), (20, 2), (105, 10)])
def test_a_lone_table_gives_its_last_tenth(tmp_path, count, val):
    (tmp_path / "x.tsv").write_text("".join(f"{n}\t-{n}\n" for n in range(count)))
    text = load_parallel(tmp_path / "x.tsv", "en", "de")
    pairs = [(str(n), f"-{n}") for n in range(count)]
    assert list(text.pairs("train")) == pairs[: count - val]
    assert list(text.pairs("val")) == pairs[count - val :]


@pytest.mark.parametrize("table", [False, True])
def test_a_folder_without_val_gives_the_last_tenth_of_train(tmp_path, table):
    lines = [(f"word {n}", f"Wort {n}") for n in range(25)]
    if table:
        fill(tmp_path, train_tsv="".join(f"{a}\t{b}\n" for a, b in lines), test_tsv="a\tb\n")
    else:
        fill(tmp_path, train_en="".join(f"{a}\n" for a, _ in lines), train_de="".join(f"{b}\n" for _, b in lines))
        fill(tmp_path, test_en="a\n", test_de="b\n")
    text = load_parallel(tmp_path, "en", "de")
    assert set(text.splits) == {"train", "val", "test"}
    assert list(text.pairs("train")) == lines[:23]
    assert list(text.pairs("val")) == lines[23:]
    assert list(text.pairs("test")) == [("a", "b")]


def test_a_folder_of_texts_without_val_gives_the_last_tenth_of_train(tmp_path):
    text = load_text(fill(tmp_path, train_txt="0123456789" * 2, test_txt="test"))
    assert ["".join(text.chunks(split)) for split in ("train", "val", "test")] == ["012345678901234567", "89", "test"]


def test_one_pair_cannot_be_divided(tmp_path):
    (tmp_path / "x.tsv").write_text("a\tb\n")
    assert "x.tsv: 1 pair, expected at least 2" in error(load_parallel, tmp_path / "x.tsv", "en", "de")


def test_a_folder_of_tables(tmp_path):
    fill(tmp_path, train_tsv="a\tb\n", val_jsonl='{"en": "c", "de": "d"}\n')
    text = load_parallel(tmp_path, "en", "de")
    assert [list(text.pairs(split)) for split in ("train", "val")] == [[("a", "b")], [("c", "d")]]
    fill(tmp_path, train_jsonl="")
    assert "a split in more than one file" in error(load_parallel, tmp_path, "en", "de")


def test_fingerprints_go_by_content(tmp_path):
    plain = load_parallel(fill(tmp_path / "a", train_en="a\nb\nc\n", train_de="x\ny\nz\n"), "en", "de")
    table = load_parallel(fill(tmp_path / "b", train_tsv="a\tx\nb\ty\nc\tz\n"), "en", "de")
    other = load_parallel(fill(tmp_path / "c", train_en="a\nbx\nc\n", train_de="x\ny\nz\n"), "en", "de")
    assert plain.fingerprint("train") == table.fingerprint("train") != other.fingerprint("train")


@pytest.mark.parametrize("text", ["ab", "hello\nworld\n", "é😀\n" * 50, "x" * 1001])
def test_a_lone_text_gives_its_last_tenth_by_characters(tmp_path, text, monkeypatch):
    monkeypatch.setattr(files, "CHUNK", 7)
    path = tmp_path / "input.txt"
    path.write_text(text, encoding="utf-8")
    loaded = load_text(path)
    cut = int(0.9 * len(text))
    assert "".join(loaded.chunks("train")) == text[:cut]
    assert "".join(loaded.chunks("val")) == text[cut:]
    assert loaded.count("train") == cut


def test_a_text_is_never_held_whole(tmp_path):
    path = tmp_path / "input.txt"
    path.write_text("to be or not to be\n" * (24 * files.CHUNK // 19))
    tracemalloc.start()
    text = load_text(path)
    assert max(map(len, text.chunks("train"))) <= 2 * files.CHUNK
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 12 * files.CHUNK


def test_windows_line_ends_and_a_bom_are_the_same_text(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"\xef\xbb\xbfone\r\ntwo\r\nthree\r\n")
    (tmp_path / "b.txt").write_bytes(b"one\ntwo\nthree\n")
    windows, unix = load_text(tmp_path / "a.txt"), load_text(tmp_path / "b.txt")
    assert windows.fingerprint("train") == unix.fingerprint("train")
    assert list(windows.chunks("val")) == list(unix.chunks("val"))


def test_a_folder_of_texts(tmp_path):
    fill(tmp_path, b_txt="two\n" * 9, a_txt="one" * 20, c_md="not read", _hidden_txt="not this either")
    (tmp_path / "._a.txt").write_bytes(b"\xff")
    (tmp_path / "_hidden.txt").unlink()
    text = load_text(tmp_path)
    assert "".join([*text.chunks("train"), *text.chunks("val")]) == "one" * 20 + "\n" + "two\n" * 9
    fill(tmp_path, train_txt="t", val_txt="v", test_txt="")
    text = load_text(tmp_path)
    assert {"train", "val", "test"} < set(text.splits)
    assert list(text.chunks("train")) == ["t"]
    assert "test.txt in" in error(lambda: list(text.chunks("test")))


def test_unusable_texts_are_refused(tmp_path):
    (tmp_path / "empty.txt").write_text("")
    (tmp_path / "one.txt").write_text("x")
    assert "empty.txt in" in error(load_text, tmp_path / "empty.txt")
    assert "one.txt: 1 character, expected at least 2" in error(load_text, tmp_path / "one.txt")
    assert "gone.txt: no such file" in error(load_text, tmp_path / "gone.txt")
    folder = fill(tmp_path / "pairs", train_en="a\n", train_de="b\n")
    assert "there are: train.de, train.en; --source and --target read parallel text" in error(load_text, folder)
    (tmp_path / "bad.txt").write_bytes(b"fine\nb\xffd\n")
    assert "bad.txt: line 2, byte 2: invalid UTF-8 (0xFF)" in error(load_text, tmp_path / "bad.txt")
    replaced = load_text(tmp_path / "bad.txt", errors="replace")
    assert "".join([*replaced.chunks("train"), *replaced.chunks("val")]) == "fine\nb\ufffdd\n"


@pytest.mark.skipif(not SHARED.is_dir(), reason="the shared data is not here")
def test_the_shared_sets_have_their_published_sizes():
    shakespeare = load_text(SHARED / "shakespeare" / "input.txt")
    assert [shakespeare.count(split) for split in ("train", "val")] == [1_003_854, 111_540]
    multi30k = load_parallel(SHARED / "multi30k-tok", "en", "de")
    sizes = {
        "train": 29_000,
        "val": 1_014,
        "test_2016_flickr": 1_000,
        "test_2017_flickr": 1_000,
        "test_2017_mscoco": 461,
    }
    assert {split: multi30k.count(split) for split in multi30k.splits} == sizes
    assert sum(len(german.split()) for _, german in multi30k.pairs("test_2016_flickr")) == 12_103


def test_chunks_of_a_text_end_with_lines(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "CHUNK", 50)
    path = tmp_path / "input.txt"
    path.write_text("to be or not\n" * 100)
    chunks = list(load_text(path).chunks("train"))
    assert len(chunks) > 5
    assert all(left.endswith("\n") for left, _ in pairwise(chunks))


@pytest.mark.parametrize("name", ["t.csv", "t.tsv", "t.jsonl", "t.parquet"])
def test_a_table_is_never_read_as_plain_text(tmp_path, name):
    """TRIALS B bug 10: `train bert-base --data t.csv` read the commas and quotes as text."""
    path = tmp_path / name
    texts = [f"text {n}, with a comma" for n in range(20)]
    if name == "t.parquet":
        arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        parquet.write_table(arrow.table({"id": list(range(20)), "body": texts}), path)
    elif name == "t.jsonl":
        path.write_text("".join(json.dumps({"id": n, "body": text}) + "\n" for n, text in enumerate(texts)))
    else:
        quote, tab = ('"', ",") if name == "t.csv" else ("", "\t")
        path.write_text(f"id{tab}body\n" + "".join(f"{n}{tab}{quote}{text}{quote}\n" for n, text in enumerate(texts)))
    wanted = "tab-separated columns, expected 1" if name == "t.tsv" else "no (column|key) 'text'"
    with pytest.raises(DataError, match=wanted):
        load_text(path)
    text = load_text(path, column="body")
    assert "".join(text.chunks("train")) == "".join(f"{line}\n" for line in texts[:18])
    assert ["".join(document) for document in text.documents("val")] == [f"{line}\n" for line in texts[18:]]


def test_a_folder_of_tables_has_their_splits_and_json_is_not_text(tmp_path):
    fill(tmp_path, train_csv="text,id\na,1\nb,2\n", test_csv="text,id\nc,3\n")
    text = load_text(tmp_path)
    assert {split: "".join(text.chunks(split)) for split in text.splits} == {
        "train": "a\n",
        "val": "b\n",
        "test": "c\n",
    }
    fill(tmp_path / "other", t_json="[]")
    assert ".json is a document: a text ends with .txt" in error(load_text, tmp_path / "other" / "t.json")


def test_the_languages_of_a_folder_are_the_endings_of_its_training_files(tmp_path):
    fill(tmp_path, train_en="a\n", train_pt_BR="b\n", train_txt="c", train_csv="d", val_fr="e\n", train_md="f")
    (tmp_path / "train_pt.BR").rename(tmp_path / "train.pt_BR")
    (tmp_path / "train.de.gz").write_bytes(gzip.compress(b"x\n"))
    assert sorted(languages(tmp_path)) == ["de", "en", "pt_BR"]
