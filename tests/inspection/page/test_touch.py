"""A phone: taps show numbers, targets are large enough, and labels do not overprint each other."""

from __future__ import annotations

import itertools

import pytest

from tests.inspection.page.subjects import KINDS, language
from tests.inspection.page.test_saved import LONG
from tests.pages import until

PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}
SMALL = """() => [...document.querySelectorAll("button, a, input, select, [role=option], [tabindex='0']")]
    .filter((each) => each.checkVisibility())
    .map((each) => [each.getBoundingClientRect(), each.outerHTML.slice(0, 90)])
    .filter(([box]) => box.width && Math.min(box.width, box.height) < 23.5)
    .map(([box, what]) => `${box.width} x ${box.height}: ${what}`)"""


@pytest.mark.parametrize("kind", ["translation", "universal", "image", "caption"])
@pytest.mark.parametrize("phone", [True, False])
def test_no_target_is_smaller_than_24_pixels(kind, phone, show):
    page = show(KINDS[kind](), hash="#off=1", **(PHONE if phone else {})).page
    assert page.evaluate(SMALL) == []


def test_a_tap_shows_numbers_that_stay(show):
    page = show(language(), **PHONE).page
    page.locator(".token").nth(3).tap()
    assert "token 4 of 10" in page.inner_text(".tip")
    page.wait_for_timeout(100)
    assert page.locator(".tip").is_visible()
    page.locator("figure", has_text="What comes next").locator("svg g").first.tap()
    assert "logit" in page.inner_text(".tip")
    page.locator("figcaption").first.tap()
    assert not page.locator(".tip").is_visible()


def test_cells_of_a_long_text_are_large_enough_for_a_finger(show):
    page = show(language(LONG), **PHONE).page
    assert float(page.get_attribute("canvas.matrix", "data-cell")) >= 24
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.locator("canvas.matrix").tap(position={"x": 200, "y": 200})
    assert "weight" in page.inner_text(".tip")


def test_the_chosen_label_has_room(show):
    """On a small matrix not every token has a label: those beside the chosen one give way to it."""
    page = show(language(LONG), hash="#at.text=16", viewport={"width": 390, "height": 844}).page
    page.evaluate("""() => { window.drawn = [];
        const paint = CanvasRenderingContext2D.prototype.fillText;
        CanvasRenderingContext2D.prototype.fillText = function (text, x, y) {
            if (this.canvas.className === "matrix" && this.textAlign === "right") window.drawn.push(y);
            paint.call(this, text, x, y); }; }""")
    page.click(".token >> nth=15")
    until(page, "() => window.drawn.length > 5")  # a figure far below the screen is drawn a moment later
    places = sorted(page.evaluate("window.drawn"))
    assert min(after - before for before, after in itertools.pairwise(places)) >= 12
