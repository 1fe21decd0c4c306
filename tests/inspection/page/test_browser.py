"""The page in a real browser: it asks for nothing, computes what PyTorch did, and does what its buttons say."""

from __future__ import annotations

import copy
import re
from typing import Any

import pytest

from headway.decoding.beam import length_penalty
from headway.inspection.page.html import document
from tests.inspection.page.subjects import KINDS, LINE, language, translation, vit

BOUNDS = {"float32": 1e-5, "int16": 1e-3}


def barriers(page: Any) -> list[str]:
    """What axe-core finds, of whatever impact."""
    axe = pytest.importorskip("axe_core_python.sync_playwright").Axe()
    found = axe.run(page)["violations"]
    return [f"{fault['id']} ({fault['impact']}): {node['html'][:120]}" for fault in found for node in fault["nodes"]]


@pytest.mark.parametrize("kind", KINDS)
def test_a_page_of_every_kind_opens_offline_and_agrees_with_pytorch(kind, show):
    payload = KINDS[kind]()
    seen = show(payload)
    assert seen.difference() <= BOUNDS[payload["precision"]]
    assert seen.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert not barriers(seen.page)
    assert not seen.faults


@pytest.mark.parametrize("width", [1440, 1024, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_screen_shows_it_without_scrolling_sideways(scheme, width, show):
    long = translation(" ".join(f"word{n}" for n in range(20)))
    seen = show(long, hash="#off=1", viewport={"width": width, "height": 844}, color_scheme=scheme)
    seen.difference()
    assert seen.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert seen.page.get_attribute("html", "data-theme") == scheme
    seen.page.locator("button.numbers").first.click()
    assert not barriers(seen.page)
    assert not seen.faults


def test_sixteen_bits_stay_within_their_bound(show, monkeypatch):
    monkeypatch.setattr("headway.inspection.page.payload.EXACT", 0)
    payload = language()
    assert payload["precision"] == "int16"
    assert 0 < show(payload).difference() <= BOUNDS["int16"]


def cell(page: Any, i: int, j: int) -> dict[str, float]:
    """Where a cell of the large matrix is."""
    left, top, side = (float(page.get_attribute("canvas.matrix", f"data-{name}")) for name in ("left", "top", "cell"))
    return {"x": left + (j + 0.5) * side, "y": top + (i + 0.5) * side}


def test_pointing_shows_exact_numbers(show):
    page = show(language()).page
    page.hover(".token >> nth=3")
    assert "token 4 of 10" in page.inner_text(".tip")
    page.hover("canvas.matrix", position=cell(page, 2, 1))
    assert re.search(r"weight [\d.]+", page.inner_text(".tip"))
    page.hover(".thumb >> nth=1")
    assert "entropy" in page.inner_text(".tip")


def test_choosing_a_token_a_head_and_a_key_is_followed_and_has_an_address(show):
    seen = show(language())
    page = seen.page
    page.click(".token >> nth=4")
    page.click(".thumb >> nth=2")
    assert page.inner_text("figcaption >> text=head 3") == "Decoder layer 1, head 3"
    page.click("canvas.matrix", position=cell(page, 6, 0))
    assert page.get_attribute(".token >> nth=6", "aria-pressed") == "true"
    address = page.url.partition("#")[2]
    assert "head=2" in address
    assert "at.text=6" in address
    again = show(language(), hash=f"#{address}").page
    assert again.get_attribute(".token >> nth=6", "aria-pressed") == "true"
    assert again.inner_text("figcaption >> text=head 3") == "Decoder layer 1, head 3"
    assert not seen.faults


def test_an_address_of_something_that_is_not_there_is_passed_over(show):
    seen = show(language(), hash="#attention=99&head=-4&at.text=1e9&theme=<b>&alpha=NaN&nonsense=1")
    assert seen.difference() <= 1e-5
    assert not seen.faults


def test_zooming_with_the_wheel_keeps_the_cell_under_the_pointer(show):
    page = show(language()).page
    page.locator("canvas.matrix").scroll_into_view_if_needed()
    page.hover("canvas.matrix", position=cell(page, 5, 4))
    before = page.inner_text(".tip")
    box, place = page.locator("canvas.matrix").bounding_box(), cell(page, 5, 4)
    page.keyboard.down("Control")
    page.mouse.wheel(0, -300)
    page.keyboard.up("Control")
    assert float(page.get_attribute("canvas.matrix", "data-cell")) > 50
    page.mouse.move(box["x"] + place["x"] + 1, box["y"] + place["y"] + 1)
    assert page.inner_text(".tip") == before
    page.click("button[aria-label='Show all']")
    assert cell(page, 5, 4) == place


def test_the_keyboard_reaches_tokens_heads_and_cells(show):
    page = show(language(), hash="#attention=1&head=0&at.text=9").page
    page.focus(".token[tabindex='0']")
    page.keyboard.press("ArrowLeft")
    assert page.get_attribute(".token >> nth=8", "aria-pressed") == "true"
    page.focus("canvas.matrix")
    page.keyboard.press("ArrowUp")
    assert page.get_attribute(".token >> nth=7", "aria-pressed") == "true"
    page.focus(".thumb[tabindex='0']")
    page.keyboard.press("ArrowRight")
    assert page.get_attribute(".thumb >> nth=5", "aria-pressed") == "true"
    page.keyboard.press("ArrowUp")
    assert page.get_attribute(".thumb >> nth=1", "aria-pressed") == "true"


def test_another_length_penalty_reranks_the_hypotheses_at_once(show):
    payload = translation()
    payload["trace"]["lines"][0] |= {"log_probability": -1.0, "length": 2, "text": "short"}
    payload["trace"]["lines"][1] |= {"log_probability": -1.2, "length": 9, "text": "long"}
    del payload["trace"]["lines"][2:]
    payload["trace"] |= {"alpha": 0.0, "penalty": "gnmt"}
    page = show(payload).page
    assert page.inner_text(".lines bdi >> nth=0") == "short"
    page.evaluate("""() => { const slider = document.getElementById('alpha'); slider.value = 2;
                             slider.dispatchEvent(new Event('input')); }""")
    assert page.inner_text(".lines bdi >> nth=0") == "long"
    assert page.inner_text(".moved >> nth=0") == "▲ from 2"
    assert f"{-1.2 / (14 / 6) ** 2:.4f}".replace("-", "−")[:6] in page.inner_text(".lines .score >> nth=0")
    page.click("text=as decoded")
    assert page.inner_text(".lines bdi >> nth=0") == "short"


@pytest.mark.parametrize("kind", ["gnmt", "mean"])
def test_the_page_ranks_as_the_search_does(kind, show):
    payload = translation()
    payload["trace"]["penalty"] = kind
    page = show(payload).page
    for alpha in (0.0, 0.5, 1.0, 3.0):
        page.evaluate(f"""() => {{ const slider = document.getElementById('alpha'); slider.value = {alpha};
                                   slider.dispatchEvent(new Event('input')); }}""")
        scores = [
            each["log_probability"] / length_penalty(each["length"], alpha, kind) for each in payload["trace"]["lines"]
        ]
        order = sorted(range(len(scores)), key=lambda n: -scores[n])
        assert (
            page.locator(".lines bdi").all_inner_texts()
            == [payload["trace"]["lines"][n]["text"] or "(nothing)" for n in order][:8]
        )


def test_a_head_is_switched_off(show):
    payload = translation()
    page = show(payload).page
    assert page.locator(".off").count() == len(payload["ablation"]["heads"]) == 24
    page.click(".off >> nth=5")
    assert "Without Encoder layer 2, head 2" in page.inner_text(".result")
    assert page.locator(".result .token").count() == len(payload["sequences"]["target"]["tokens"])
    assert "off=5" in page.url


def test_figures_are_saved_as_files(show):
    seen = show(translation())
    seen.difference()
    titles = {"heads": "Every head", "head": "One head", "scores": "From products to weights", "search": "The search",
              "probabilities": "What is written next"}  # fmt: skip
    for name, title in titles.items():
        for kind, begins in (("SVG", b"<svg "), ("PNG", b"\x89PNG")):
            with seen.page.expect_download() as told:
                seen.page.click(f"button[aria-label='Save “{title}” as {kind}']")
            assert told.value.suggested_filename == f"{name}.{kind.lower()}"
            saved = told.value.path().read_bytes()
            assert len(saved) > 2000
            assert saved.startswith(begins)
    assert not seen.faults


def pictures(page: Any) -> list[str]:
    """Every canvas of the page as its pixels, every drawing, and the text."""
    page.wait_for_selector("[data-painted=yes]", state="attached")
    drawn = page.evaluate("[...document.querySelectorAll('canvas')].map((each) => each.toDataURL())")
    lines = page.evaluate("[...document.querySelectorAll('svg')].map((each) => each.outerHTML)")
    return [*drawn, *lines, page.inner_text("main")]


def test_every_number_comes_from_the_file(show):
    payload = language()
    before = pictures(show(payload).page)
    assert before == pictures(show(payload).page)  # nothing is drawn by chance
    for part in ("q", "k", "v"):
        other, entry = copy.deepcopy(payload), payload["attentions"][-1]
        spare = payload["attentions"][0][part]
        other["tensors"][entry[part]] = payload["tensors"][spare]
        seen = show(other)
        assert seen.difference() > 1e-3  # the badge notices
        assert "bad" in seen.page.get_attribute("#badge", "class")
        assert pictures(seen.page) != before
    for name in (payload["stacks"][0]["input"][0]["tensor"], payload["output"]["logits"]):
        other = copy.deepcopy(payload)
        kept = other["tensors"][name]
        kept["data"] = "A" * (len(kept["data"]) - 4) + kept["data"][-4:]
        assert pictures(show(other).page) != before


def test_the_script_draws_nothing_at_random():
    text = document(language())
    assert "Math.random" not in text
    assert "getRandomValues" not in text


def test_light_and_dark_can_be_changed(show):
    page = show(vit(), color_scheme="dark").page
    assert page.get_attribute("html", "data-theme") == "dark"
    page.click("#theme")
    assert page.get_attribute("html", "data-theme") == "light"
    assert "theme=light" in page.url


def test_text_from_right_to_left_is_laid_out_so(show):
    line = "القط الصغير ينام في البيت"
    page = show(language(line)).page
    assert page.get_attribute(".tokens", "dir") == "rtl"
    boxes = page.evaluate(
        "[...document.querySelectorAll('.tokens .token')].map((each) => each.getBoundingClientRect().x)"
    )
    assert boxes == sorted(boxes, reverse=True)
    assert page.inner_text("h1").startswith("القط")


def test_tables_stand_behind_the_figures(show):
    page = show(language(LINE)).page
    figures = page.locator("figure:visible")
    assert figures.count() >= 8
    for n in range(figures.count()):
        figures.nth(n).locator("button.numbers").click()
        figures.nth(n).locator("tbody tr").first.wait_for()
    assert page.locator("button.numbers[aria-expanded=true]:visible").count() == figures.count()
