"""Passages of lines, paragraphs and tables, each with the place where it begins."""

from __future__ import annotations

import gzip
import json

import pytest

from headway.data.search_passages import LONGEST, Corpus, Passage
from headway.errors import DataError


def test_a_file_is_read_by_lines_and_empty_ones_are_left_out(tmp_path):
    (tmp_path / "a.txt").write_text("one\n\n  two \n\t\nthree")
    assert list(Corpus(path=tmp_path / "a.txt")) == [
        Passage("one", "a.txt", 1), Passage("two", "a.txt", 3), Passage("three", "a.txt", 5),
    ]  # fmt: skip


def test_a_folder_is_read_by_paragraphs_in_the_order_of_names(tmp_path):
    (tmp_path / "below").mkdir()
    (tmp_path / "b.md").write_text("# title\n\nfirst line\nsecond line\n\n\nlast\n")
    with gzip.open(tmp_path / "below/c.txt.gz", "wt") as file:
        file.write("packed\n")
    (tmp_path / ".hidden.txt").write_text("no")
    (tmp_path / "picture.png").write_bytes(b"\x89PNG\0")
    (tmp_path / "link.txt").symlink_to(tmp_path / "b.md")
    assert list(Corpus(path=tmp_path)) == [
        Passage("# title", "b.md", 1),
        Passage("first line\nsecond line", "b.md", 3),
        Passage("last", "b.md", 7),
        Passage("packed", "below/c.txt.gz", 1),
    ]
    lines = [passage.text for passage in Corpus(path=tmp_path, by="lines")]
    assert lines == ["# title", "first line", "second line", "last", "packed"]


def test_long_paragraphs_are_divided_and_nothing_is_lost(tmp_path):
    sentences = [f"Sentence {n} has some words in it." for n in range(200)]
    text = "\n".join(sentences[:50]) + "\n" + " ".join(sentences[50:]) + "\n" + "x" * (3 * LONGEST) + "\n"
    (tmp_path / "long.txt").write_text(text)
    found = list(Corpus(path=tmp_path))
    assert max(len(passage.text) for passage in found) <= LONGEST + 1
    assert "".join("".join(passage.text.split()) for passage in found) == "".join(text.split())
    lines = text.split("\n")
    for passage in found:
        assert passage.text.split("\n")[0][:20] in lines[passage.line - 1]


def test_a_table_is_read_by_its_column_and_rows_are_counted(tmp_path):
    (tmp_path / "a.csv").write_text('text,n\n"one, two",1\n,2\nthree,3\n')
    (tmp_path / "a.jsonl").write_text("".join(json.dumps({"body": text}) + "\n" for text in ("x", "y")))
    assert list(Corpus(path=tmp_path / "a.csv")) == [Passage("one, two", "a.csv", 1), Passage("three", "a.csv", 3)]
    assert [passage.text for passage in Corpus(path=tmp_path / "a.jsonl", text="body")] == ["x", "y"]
    with pytest.raises(DataError, match="no key 'text'; there are: 'body'"):
        list(Corpus(path=tmp_path / "a.jsonl"))


def test_what_cannot_be_searched_is_named(tmp_path):
    (tmp_path / "only").mkdir()
    (tmp_path / "only/table.csv").write_text("text\na\n")
    with pytest.raises(DataError, match=r"no text file \(.txt, .*\); there are: table.csv; a table .* is named itself"):
        list(Corpus(path=tmp_path / "only"))
    with pytest.raises(DataError, match="no such file or folder"):
        list(Corpus(path=tmp_path / "none"))
    (tmp_path / "bad.txt").write_bytes(b"ok\n\xff\n")
    with pytest.raises(DataError, match="line 2, byte 1: invalid UTF-8"):
        list(Corpus(path=tmp_path / "bad.txt"))
