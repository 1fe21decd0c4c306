"""The keyboard does what the mouse does, in few steps, and the focus stays where it was put."""

from __future__ import annotations

from typing import Any

import pytest

from tests.inspection.page.subjects import KINDS, language, translation, universal
from tests.inspection.page.test_saved import LONG


def stops(page: Any) -> list[str]:
    """The names of what the tab key stops at, by pressing it until it comes round."""
    names: list[str] = []
    page.evaluate("document.body.focus()")
    for _ in range(200):
        page.keyboard.press("Tab")
        name = page.evaluate("""() => { const each = document.activeElement;
            if (each === document.body || each.dataset.seen) return null;
            each.dataset.seen = "yes";
            return each.getAttribute("aria-label") || (each.labels && each.labels[0] && each.labels[0].textContent)
                || each.textContent.trim(); }""")
        if name is None:
            return names
        names.append(name)
    return names


@pytest.mark.parametrize(
    "kind", ["translation", "a long translation", "language, rotary", "masked", "image", "caption", "universal"]
)
def test_there_are_at_most_sixty_stops_and_each_has_a_name(kind, show):
    payload = translation(LONG) if kind == "a long translation" else KINDS[kind]()
    page = show(payload, hash="#off=1").page
    found = stops(page)
    assert 15 < len(found) <= 60
    assert all(found)


def chosen(page: Any, title: str) -> Any:
    return page.locator("figure", has_text=title).last.locator("[role=option][tabindex='0']")


@pytest.mark.parametrize("key", ["Enter", " "])
def test_rows_of_a_figure_are_chosen_by_keys(key, show):
    page = show(language(), hash="#at.text=9&attention=1&head=0").page
    chosen(page, "From products to weights").focus()
    page.keyboard.press("Home")
    assert "weight" in page.inner_text(".tip")
    page.keyboard.press(key)
    assert "key=0" in page.url
    assert page.evaluate("document.activeElement.getAttribute('aria-selected')") == "true"
    chosen(page, "Which heads attend there").focus()
    page.keyboard.press("End")
    page.keyboard.press(key)
    assert page.evaluate("document.activeElement.getAttribute('aria-selected')") == "true"
    name = page.evaluate("document.activeElement.getAttribute('aria-label')")
    layer, head = (part.split()[1] for part in name.partition(":")[0].split(", "))
    assert page.locator("figcaption", has_text=f"Decoder layer {layer}, head {head}").count() == 1


def test_a_place_is_chosen_in_the_lens(show):
    page = show(language(), hash="#at.text=9").page
    chosen(page, "After each block").focus()
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Enter")
    assert page.get_attribute(".token >> nth=8", "aria-pressed") == "true"
    assert page.evaluate("document.activeElement.getAttribute('role')") == "option"


def test_a_token_is_chosen_by_its_ponder_time(show):
    page = show(universal(), hash="#at.source=3").page
    chosen(page, "Encoder: how long each token").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    assert page.get_attribute(".token >> nth=4", "aria-pressed") == "true"


def test_the_focus_stays_on_a_chosen_hypothesis(show):
    page = show(translation()).page
    page.focus(".lines button >> nth=0")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.className") == "line"
    assert "line=" in page.url


def test_arrows_walk_over_heads_in_rows(show):
    page = show(translation(), hash="#off=5").page  # layer 2, head 2 of the encoder
    page.focus(".off >> nth=5")
    page.keyboard.press("ArrowUp")
    assert page.get_attribute(".off >> nth=1", "aria-pressed") == "true"
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    assert page.get_attribute(".off >> nth=9", "aria-pressed") == "true"


def test_vectors_are_read_by_keys(show):
    page = show(language(), hash="#at.text=4").page
    figure = page.locator("figure", has_text="the stream")
    figure.locator("canvas").focus()
    page.keyboard.press("ArrowRight")
    assert ", dimension 2" in page.inner_text(".tip")
    page.keyboard.press("ArrowUp")
    assert page.get_attribute(".token >> nth=3", "aria-pressed") == "true"
    assert page.evaluate("document.activeElement.tagName") == "CANVAS"


def test_the_tools_of_a_section_are_one_stop_and_up_and_down_lead_from_figure_to_figure(show):
    page = show(translation()).page
    tools = page.locator("#story .tools button[tabindex='0']")
    assert tools.count() == 1
    tools.focus()
    told = "document.activeElement.getAttribute('aria-label')"
    assert page.evaluate(told) == "Save “From products to weights” as SVG"
    page.keyboard.press("ArrowRight")
    product, values = "One product, dimension by dimension", "Weighted values, added up"
    for key, title in (("Down", product), ("Down", values), ("Down", values), ("Up", product)):
        page.keyboard.press(f"Arrow{key}")
        assert page.evaluate(told) == f"Save “{title}” as PNG"
    page.keyboard.press("Tab")
    page.keyboard.press("Shift+Tab")
    assert page.evaluate(told) == "Save “One product, dimension by dimension” as PNG"
    page.evaluate("document.activeElement.closest('figure').hidden = true")  # a figure that has nothing to show
    page.keyboard.press("Tab")
    assert tools.count() == 1
    assert tools.is_visible()
