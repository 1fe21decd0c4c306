"""CSV files as people have them: quotes, delimiters, marks at the beginning, damage, and limits."""

from __future__ import annotations

import csv
import gzip

import pytest

from headway.data.csv_files import find_delimiter, read_csv
from headway.data.tables import read_rows
from headway.errors import DataError
from headway.limits import raised


def rows(path, content):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return list(read_csv(path))


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_quotes_and_line_ends_inside_cells_follow_rfc_4180(tmp_path, delimiter):
    d = delimiter
    content = f'text{d}label\r\n"a {d} b"{d}x\r\n\r\n"she said ""no"""{d}y\r\n"two\r\nlines"{d}""\r\n'
    assert rows(tmp_path / "x.csv", content) == [
        (1, ["text", "label"]),
        (2, [f"a {d} b", "x"]),
        (4, ['she said "no"', "y"]),
        (5, ["two\nlines", ""]),
    ]


@pytest.mark.parametrize(
    ("content", "delimiter"),
    [
        ("text;label\na, b, c;x\nd, e;y\n", ";"),
        ("text,label\nx; y; z,a\n", ","),
        ("a\tb\n1,5\t2\n", "\t"),
        ("text\nonly one, column\nhere\n", ","),
        ("", ","),
        ('"a,b;c",d\n"e;f",g\n', ","),
    ],
)
def test_the_delimiter_is_the_one_with_as_many_columns_in_every_row(tmp_path, content, delimiter):
    (tmp_path / "x.csv").write_text(content)
    assert find_delimiter(tmp_path / "x.csv") == delimiter


def test_only_the_beginning_decides_and_a_row_that_is_cut_there_does_not_count(tmp_path):
    content = "text;label\n" + f"{'a, b ' * 6000};x\n" * 5
    (tmp_path / "x.csv").write_text(content)
    assert find_delimiter(tmp_path / "x.csv") == ";"


def test_byte_order_mark_and_gzip(tmp_path):
    path = tmp_path / "x.csv.gz"
    path.write_bytes(gzip.compress("\ufefftext,label\nä,x\n".encode()))
    assert list(read_rows(path, "label", "text")) == [("x", "ä")]


def test_columns_by_name_by_number_and_nothing_else(tmp_path):
    path = tmp_path / "x.csv"
    rows(path, "id, text ,label\n1,a,x\n2,b,y\n")
    assert list(read_rows(path, "label", "text")) == [("x", "a"), ("y", "b")]
    assert list(read_rows(path, "text")) == [("a",), ("b",)]
    rows(path, "1,a,x\n2,b,y\n")
    assert list(read_rows(path, "3", "2")) == [("x", "a"), ("y", "b")]
    with pytest.raises(DataError, match=r"no column 'label'; there are: 1, a, x; a table without a header has columns"):
        list(read_rows(path, "label", "text"))
    rows(path, "text,text\na,b\n")
    with pytest.raises(DataError, match="2 columns are named 'text', expected one"):
        list(read_rows(path, "text"))


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ('text,label\na,x\n"b,y\nc,z\n', "line 3: not CSV (a quote is not closed)"),
        ('text,label\n"b" c,y\n', "line 2: not CSV"),
        ('text,label\n"a \\"b\\" c",y\n', "a quote inside a quoted cell is written twice"),
        ("text,label\na,x\nb\n", "line 3 has 1 columns, expected 2"),
        (b"text,label\n\xff,x\n", "line 2, byte 1: invalid UTF-8"),
        (b"text,label\na\0,x\n", "NUL"),
    ],
)
def test_damage_is_one_line_with_its_place(tmp_path, content, told):
    rows_of = tmp_path / "x.csv"
    rows_of.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(DataError) as caught:
        list(read_rows(rows_of, "label", "text"))
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_cell_may_be_longer_than_pythons_own_limit_which_stays_as_it_is(tmp_path):
    before = csv.field_size_limit()
    assert rows(tmp_path / "x.csv", f'text\n"{"a " * before}"\n')[1][1] == ["a " * before]
    assert csv.field_size_limit() == before


def test_limits_hold_for_rows_and_columns(tmp_path):
    path = tmp_path / "x.csv"
    with raised({"cell-bytes": 1000}), pytest.raises(DataError, match=r"the row in line 2.*--limit cell-bytes=N"):
        rows(path, 'text\n"' + "a\n" * 1000)
    with raised({"list": 3}), pytest.raises(DataError, match=r"columns in line 1: 4 .*--limit list=N"):
        rows(path, "a,b,c,d\n")
