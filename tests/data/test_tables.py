from __future__ import annotations

import json
import sys

import pytest

from headway.data.tables import read_rows
from headway.errors import DataError


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
        ("x.jsonl", "[" * 100_000, "line 1: not JSON"),
        ("x.jsonl", "1" * 10_000, "line 1: not JSON"),
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


def test_parquet_without_pyarrow_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(DataError, match=r"x\.parquet: parquet needs pyarrow.*headway\[parquet\]"):
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
