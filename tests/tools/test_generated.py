"""What the tools that write documents share."""

from __future__ import annotations

import sys

import pytest

from tools.generated import replace_part, write_or_check


def test_the_part_between_the_markers_is_replaced_and_nothing_else():
    page = "# Title\n\n<b>\n\nold\n\n<e>\n\nmore\n"
    assert replace_part(page, "<b>", "<e>", "new") == "# Title\n\n<b>\n\nnew\n\n<e>\n\nmore\n"


@pytest.mark.parametrize(("page", "missing"), [("# Title\n", "<b>"), ("<b>\n", "<e>"), ("<e> <b>\n", "<e>")])
def test_a_page_without_the_markers_is_refused(page, missing):
    with pytest.raises(ValueError, match=f"the page lacks {missing}"):
        replace_part(page, "<b>", "<e>", "new")


def test_check_compares_and_writes_nothing(tmp_path, monkeypatch, capsys):
    contents = {tmp_path / "a.md": "one", tmp_path / "b.md": "two"}
    monkeypatch.setattr(sys, "argv", ["tool", "--check"])
    (tmp_path / "a.md").write_text("one")
    assert write_or_check(contents, "make docs") == 1
    assert capsys.readouterr().out == "not current in docs: b.md; run `make docs`\n"
    assert not (tmp_path / "b.md").exists()
    monkeypatch.setattr(sys, "argv", ["tool"])
    assert write_or_check(contents, "make docs") == 0
    assert (tmp_path / "b.md").read_text() == "two"
    monkeypatch.setattr(sys, "argv", ["tool", "--check"])
    assert write_or_check(contents, "make docs") == 0
