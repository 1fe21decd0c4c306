"""What a newcomer meets: the answer first, controls that fit the model, legends, names, and text that can be read."""

from __future__ import annotations

import pytest

from tests.inspection.page.subjects import KINDS, text_classifier, translation

DRAWN = ("translation", "language, rotary", "caption", "transcript")
NOT_DRAWN = ("text classifier", "image", "masked", "pose", "objects", "answers", "transcript, CTC")
SHADED = ("heads-off", "encoder-input", "heads", "head", "product", "values", "encoder-chain", "encoder-stream", "lens")

# Labels of a drawing that leave it or cover each other, and elements that leave the page. Slanted labels have boxes
# that overlap where the letters do not.
UNREADABLE = """() => {
    const found = [], here = (node) => node.closest("figure")?.dataset.figure ?? node.closest("section")?.id;
    for (const drawing of document.querySelectorAll("svg")) {
        const room = drawing.getBoundingClientRect();
        const labels = [...drawing.querySelectorAll("text:not([transform])")]
            .filter((each) => each.textContent.trim() && each.checkVisibility())
            .map((each) => [each.textContent, each.getBoundingClientRect()]);
        labels.forEach(([text, box], n) => {
            if (box.left < room.left - 2 || box.right > room.right + 2) found.push(`${here(drawing)}: ${text} is cut`);
            for (const [other, next] of labels.slice(n + 1)) {
                const wide = Math.min(box.right, next.right) - Math.max(box.left, next.left),
                    high = Math.min(box.bottom, next.bottom) - Math.max(box.top, next.top);
                if (wide > 2 && high > 5) found.push(`${here(drawing)}: ${text} covers ${other}`);
            }
        });
    }
    for (const node of document.querySelectorAll("header *, nav *, main *")) {
        if (node instanceof SVGElement || !node.checkVisibility()) continue;
        let scrolls = false;
        for (let up = node.parentElement; up; up = up.parentElement)
            scrolls ||= ["auto", "scroll"].includes(getComputedStyle(up).overflowX);
        if (!scrolls && node.getBoundingClientRect().right > innerWidth + 1) found.push(`too wide: ${node.outerHTML}`);
    }
    return found;
}"""


@pytest.mark.parametrize("kind", ["translation", "language, rotary", "text classifier", "image"])
def test_the_answer_stands_before_how_it_was_computed(kind, show):
    page = show(KINDS[kind]()).page
    order = page.locator("main > section").evaluate_all("all => all.map(each => each.id)")
    assert order[:4] == ["model", "input", "output", "what-if"]
    links = page.locator("nav a").evaluate_all("all => all.map(each => each.getAttribute('href').slice(1))")
    assert links == order


@pytest.mark.parametrize("kind", [*DRAWN, *NOT_DRAWN])
def test_only_a_text_that_is_drawn_has_a_temperature(kind, show):
    page = show(KINDS[kind]()).page
    assert page.locator("#sampling-temperature").count() == (kind in DRAWN)


def test_classes_are_called_classes(show):
    page = show(text_classifier()).page
    probabilities = page.locator("[data-figure=probabilities]")
    probabilities.locator("button.numbers").click()
    assert probabilities.locator("thead th").first.inner_text() == "class"
    assert "The likeliest class is " in probabilities.inner_text()
    assert "token" not in page.inner_text("#output")


def test_every_scale_of_colours_has_a_legend(show):
    page = show(translation()).page
    page.wait_for_selector("[data-painted=yes]", state="attached")
    for name in SHADED:
        assert page.locator(f"[data-figure={name}] svg.legend").count() >= 1, name


def test_a_model_has_the_name_that_people_use(show):
    payload = translation()
    payload["steps"] = [609, 616]
    facts = show(payload).page.inner_text(".facts")
    assert "transformer encoder-decoder, " in facts
    assert "mean of the checkpoints of steps 609 and 616" in facts


@pytest.mark.parametrize("kind", KINDS)
def test_on_a_phone_no_text_is_cut_off_or_covered(kind, show):
    page = show(KINDS[kind](), viewport={"width": 390, "height": 844}).page
    page.wait_for_selector("html:not([data-late])", state="attached")
    assert page.evaluate(UNREADABLE) == []
