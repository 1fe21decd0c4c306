"""Guided tours: on every kind of run, offline, with the keyboard alone."""

from __future__ import annotations

import math
import re

import pytest

from tests.inspection.page.subjects import KINDS, translation
from tests.inspection.page.test_browser import barriers


@pytest.mark.parametrize("kind", ["translation", "image", "masked", "caption"])
def test_a_tour_is_walked_to_its_end(kind, show):
    opened = show(KINDS[kind]())
    page = opened.page
    page.click("#tour")
    titles = []
    while True:
        titles.append(page.inner_text(".guide h2"))
        assert len(page.inner_text(".guide > p:not(.note)")) > 40
        assert page.locator(".guide .ask").count() == 1
        if page.locator(".guide button:text-is('Next')").is_disabled():
            break
        page.click(".guide button:text-is('Next')")
    assert len(set(titles)) == len(titles) >= 4
    assert not opened.faults
    assert opened.difference() < 1e-5


def test_an_answer_is_judged_by_the_numbers_of_the_run(show):
    page = show(translation(), hash="#tour=002.5").page
    assert page.inner_text(".guide h2") == "Scores become weights"
    a, b = (
        float(text.replace("\u2212", "-")) for text in re.findall(r"(\S+) for ", page.inner_text(".guide p[dir=auto]"))
    )
    answer = page.get_by_label(re.compile("How many times as large"))
    for given, verdict in (("many", "A number is expected"), ("-7", "Not yet"), (f"{math.exp(a - b):.3f}", "Right.")):
        answer.fill(given)
        answer.press("Enter")
        assert page.inner_text(".verdict").startswith(verdict)


def test_choices_are_judged_and_the_answer_can_be_shown(show):
    page = show(translation(), hash="#tour=004.1").page
    choices = page.locator(".guide .tokens button")
    verdicts = []
    for n in range(choices.count()):
        choices.nth(n).click()
        verdicts.append(page.inner_text(".verdict").split()[0])
    assert sorted(verdicts) == ["Not"] * (len(verdicts) - 1) + ["Right."]
    choices.nth(verdicts.index("Not")).click()
    page.click(".verdict button")
    right = choices.nth(verdicts.index("Right.")).inner_text()
    assert page.inner_text(".verdict").startswith(f"{right}.")


def test_a_tour_is_taken_with_the_keyboard(show):
    page = show(translation()).page
    page.focus("#tour")
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.textContent") == page.inner_text(".guide h2")
    page.focus(".guide button:text-is('Next')")
    page.keyboard.press("Enter")
    assert page.inner_text(".guide .note").startswith("2 of")
    assert "tour=000.2" in page.url
    page.keyboard.press("Escape")
    assert page.locator(".guide").is_hidden()
    assert page.evaluate("document.activeElement.id") == "tour"
    assert "tour=" not in page.url


@pytest.mark.parametrize("hash", ["#tour=999.1", "#tour=002.99", "#tour=<b>"])
def test_an_address_of_no_tour_shows_none(hash, show):
    opened = show(translation(), hash=hash)
    assert opened.page.locator(".guide").is_hidden()
    assert not opened.faults


@pytest.mark.parametrize(("width", "scheme"), [(1440, "light"), (390, "dark")])
def test_the_card_is_accessible_and_what_it_shows_is_in_sight(width, scheme, show):
    size = {"width": width, "height": 844}
    page = show(translation(), hash="#tour=003.4", viewport=size, color_scheme=scheme, reduced_motion="reduce").page
    assert barriers(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.click(".guide button:text-is('Next')")
    box = page.locator(".toured").bounding_box()
    bar = page.locator("nav").bounding_box()
    assert bar["y"] + bar["height"] <= box["y"] < 300
