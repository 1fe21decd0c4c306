from __future__ import annotations

import gzip
import json
import sys

import pytest

from headway.data.tables import read_rows
from headway.errors import DataError
from headway.limits import raised


def rows(path, content, errors="strict"):
    path.write_text(content, encoding="utf-8", newline="")
    return list(read_rows(path, "en", "de", errors=errors))


@pytest.mark.parametrize(
    "content",
    [
        "a dog\tein Hund\na cat\teine Katze\n",
        "en\tde\na dog\tein Hund\na cat\teine Katze\n",
        "de\ten\r\nein Hund\ta dog\r\neine Katze\ta cat\r\n",
        "id\tde\tsure\ten\n1\tein Hund\t0.5\ta dog\n2\teine Katze\t1\ta cat",
    ],
)
def test_tsv_with_and_without_a_header(tmp_path, content):
    assert rows(tmp_path / "x.tsv", content) == [("a dog", "ein Hund"), ("a cat", "eine Katze")]


def test_jsonl_goes_by_key_and_skips_blank_lines(tmp_path):
    content = '{"de": "ein\\u2028Hund", "en": "a dog", "id": 7}\n\n{"en": "", "de": "x\\ty"}\n'
    assert rows(tmp_path / "x.jsonl", content) == [("a dog", "ein\u2028Hund"), ("", "x\ty")]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("x.tsv", "a\tb\nc\n", "x.tsv: line 2 has 1 tab-separated columns, expected 2"),
        ("x.tsv", "a\tb\tc\n", "x.tsv: line 1 has 3 tab-separated columns, expected 2"),
        ("x.jsonl", '{"en": "a", "de": "b"}\nnope\n', "x.jsonl: line 2: not JSON"),
        ("x.jsonl", "[" * 100_000, "line 1: nested more than 64 levels deep"),
        ("x.jsonl", "1" * 10_000, "line 1: an integer of more than 4,300 digits"),
        ("x.jsonl", "[1]", "line 1: a JSON list, expected an object with 'en' and 'de'"),
        ("x.jsonl", '{"en": "a", "fr": "b"}', "line 1: no key 'de'; there are: 'en', 'fr'"),
        ("x.jsonl", '{"en": "a", "de": 3}', "line 1: de is a int, expected a string"),
        ("x.jsonl", '{"en": "a", "de": null}', "line 1: de is a NoneType, expected a string"),
        ("x.jsonl", '{"en": "a\\ud800", "de": "b"}', "line 1: en holds NUL or a lone surrogate"),
        ("x.jsonl", '{"en": "a", "de": "\\u0000"}', "line 1: de holds NUL or a lone surrogate"),
    ],
)
def test_a_bad_row_is_named(tmp_path, name, content, message):
    with pytest.raises(DataError) as caught:
        rows(tmp_path / name, content)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_replace_goes_on_with_what_is_not_text(tmp_path):
    content = json.dumps({"en": "a\ud800b\0", "de": "😀"})
    (pair,) = rows(tmp_path / "x.jsonl", content, errors="replace")
    assert pair[1] == "😀"
    assert pair[0].encode().decode().replace("\ufffd", "") == "ab"


def repeated(value, count, encoding):
    """A column of one value, as parquet keeps it in a few bytes."""
    arrow = pytest.importorskip("pyarrow")
    if encoding == "dictionary":
        numbers = arrow.array(memoryview(bytes(4 * count)).cast("i"))
        return arrow.DictionaryArray.from_arrays(numbers, arrow.array([value]))
    return arrow.array([value] * count)


@pytest.mark.parametrize(
    ("cell", "count", "encoding", "wrong"),
    [
        (1_000_000, 2000, "dictionary", "decompressed: .* times its size, allowed: up to 100"),
        (1_000_000, 100, "DELTA_BYTE_ARRAY", "decompressed: .* times its size, allowed: up to 100"),
        (1_000_000, 100, "PLAIN", "column 'en': a page: 100,000,4.. bytes, allowed: up to 67,108,864"),
        (1, 3_000_000, "dictionary", "decompressed: .* times its size, allowed: up to 100"),
    ],
)
def test_a_small_parquet_file_does_not_fill_the_memory(tmp_path, cell, count, encoding, wrong):
    """D6: a file of 754 bytes, 2000 cells of a megabyte, took 3 GB."""
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "x.parquet"
    column = repeated("a" * cell, count, encoding)
    plain = {"use_dictionary": encoding == "dictionary"}
    if encoding not in ("dictionary", "PLAIN"):
        plain["column_encoding"] = encoding
    table = arrow.table({"en": column, "de": column})
    parquet.write_table(table, path, compression="zstd", store_schema=False, **plain)
    del column, table
    assert path.stat().st_size < 40_000
    before, sizes = arrow.default_memory_pool(), []
    pool = arrow.proxy_memory_pool(before)
    arrow.set_memory_pool(pool)
    try:
        with pytest.raises(DataError, match=rf"x\.parquet: {wrong} \(--limit .*=N raises it\)"):
            sizes.extend(len(source) + len(target) for source, target in read_rows(path, "en", "de"))
    finally:
        arrow.set_memory_pool(before)
    assert sum(sizes) < 130_000_000
    assert len(sizes) < 1_000_000
    assert pool.max_memory() < 120_000_000


def test_what_a_parquet_file_repeats_within_reason_is_read(tmp_path):
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "x.parquet"
    parquet.write_table(arrow.table({"en": ["dog " * 1000] * 300, "de": ["Hund"] * 300}), path, row_group_size=70)
    assert list(read_rows(path, "en", "de")) == [("dog " * 1000, "Hund")] * 300
    with raised({"cell-bytes": 1000}), pytest.raises(DataError, match=r"column 'en': a page: .* up to 1,000"):
        list(read_rows(path, "en", "de"))
    parquet.write_table(arrow.table({"en": [["dog"]] * 3, "de": ["Hund"] * 3}), path)
    with pytest.raises(DataError, match="column 'en' is a list or a struct, expected single values"):
        list(read_rows(path, "en", "de"))


def test_column_names_are_escaped_and_not_too_many(tmp_path):
    """D9: terminal escapes in column names reached the terminal."""
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "x.parquet"
    names = ["\x1b]0;owned\x07", "a\nb", "c" * 5000, *(f"column-{n}" for n in range(100))]
    parquet.write_table(arrow.table({name: ["x"] for name in names}), path)
    with pytest.raises(DataError, match=r"no column 'en'; there are: .* and 83 more") as caught:
        list(read_rows(path, "en", "de"))
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 1500


def test_parquet_without_pyarrow_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)  # which another test may have imported
    with pytest.raises(DataError, match=r"x\.parquet: parquet needs pyarrow.*\[parquet\]"):
        list(read_rows(tmp_path / "x.parquet", "en", "de"))


def test_parquet(tmp_path):
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "x.parquet"
    parquet.write_table(arrow.table({"de": ["Hund"] * 2500, "en": ["dog"] * 2500}), path)
    assert list(read_rows(path, "en", "de")) == [("dog", "Hund")] * 2500
    with pytest.raises(DataError, match="no column 'fr'; there are: de, en"):
        list(read_rows(path, "en", "fr"))
    parquet.write_table(arrow.table({"de": ["Hund", None], "en": ["dog", "cat"]}), path)
    with pytest.raises(DataError, match="row 2: de is a NoneType"):
        list(read_rows(path, "en", "de"))
    path.write_bytes(b"PAR1 is not enough")
    with pytest.raises(DataError, match=r"x\.parquet: not a readable parquet file") as caught:
        list(read_rows(path, "en", "de"))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["x.csv", "x.CSV", "x.csv.gz"])
def test_csv_by_its_header_as_other_tables(tmp_path, name):
    content = 'id,de,en\n1,"ein Hund, ein ""guter""",a dog\n2,eine Katze,a cat\n'
    path = tmp_path / name
    path.write_bytes(gzip.compress(content.encode()) if name.endswith("gz") else content.encode())
    found = [("a dog", 'ein Hund, ein "guter"'), ("a cat", "eine Katze")]
    assert list(read_rows(path, "en", "de")) == found


def test_classes_may_be_numbers_where_that_is_allowed(tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_text('{"label": 1, "text": "a"}\n{"label": true, "text": "b"}\n')
    assert list(read_rows(path, "label", "text", numbers=True)) == [("1", "a"), ("true", "b")]
    with pytest.raises(DataError, match="label is a int, expected a string"):
        list(read_rows(path, "label", "text"))
    path.write_text('{"label": 1.5, "text": "a"}\n')
    with pytest.raises(DataError, match="label is a float, expected a string"):
        list(read_rows(path, "label", "text", numbers=True))
