"""Figures saved as files: whole, and with what is needed to understand them elsewhere."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.inspection.page.subjects import translation, vit

LONG = " ".join(f"word{n}" for n in range(30))
SVG = "{http://www.w3.org/2000/svg}"


def saved(page: Any, title: str, kind: str = "SVG") -> Path:
    with page.expect_download() as told:
        page.click(f"button[aria-label='Save “{title}” as {kind}']")
    path: Path = told.value.path()
    return path


def reach(root: Any) -> float:
    """How far to the right the picture's parts go."""
    return max(
        float(part.get("x", 0)) + float(part.get("width", 0))
        for part in root
        if part.tag in (f"{SVG}svg", f"{SVG}image")
    )


@pytest.mark.parametrize("width", [1440, 390])
def test_a_saved_figure_is_whole(width, show):
    page = show(translation(LONG), viewport={"width": width, "height": 800}).page
    for title in ("The search", "What each token attended to"):
        drawn = page.locator("figure", has_text=title).last.locator(".wide svg").first
        page.locator("figure", has_text=title).last.locator(".wide").first.evaluate("(each) => each.scrollLeft = 120")
        root = ElementTree.parse(saved(page, title)).getroot()
        wide = float(drawn.get_attribute("width"))
        assert float(root.get("width")) >= wide
        assert float(root.get("width")) >= reach(root) >= wide
        assert page.locator("figure.whole").count() == 0


def test_a_saved_figure_stands_alone(show):
    page = show(translation()).page
    text = " ".join(ElementTree.parse(saved(page, "The search")).getroot().itertext())
    assert "The search" in text
    assert "faint ones were let go" in text
    assert "Length penalty α" in text
    assert re.search(r"\b1\. .*\b2\. ", text)  # the ranks of the hypotheses
    assert "SVG" not in text
    text = " ".join(ElementTree.parse(saved(page, "Every head")).getroot().itertext())
    assert "25%" in text  # the legend


def test_a_long_sentence_is_saved_in_lines(show):
    page = show(vit(), viewport={"width": 390, "height": 800}).page
    root = ElementTree.parse(saved(page, "Every head")).getroot()
    lines = [part for part in root if part.tag == f"{SVG}text"]
    assert len(lines) >= 5
    assert float(root.get("width")) <= 390 + 64
    assert all(len("".join(part.itertext())) < 80 for part in lines)
