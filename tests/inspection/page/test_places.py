"""Where one is on the page, what things are called, and what is left out: nothing without a word."""

from __future__ import annotations

import base64
import itertools
import math
import re
from typing import Any

import pytest

from headway.data.tokenizers import SPECIALS, Bpe, ByteBpe, Tokenizer, Unigram
from headway.inspection.page.payload import RunFacts, payload
from headway.models import BertConfig, GptConfig, build_model
from headway.tasks.base import Pipeline
from headway.tasks.encoder_explanation import explain_text
from headway.tasks.language_modelling import Language
from tests.inspection.page.subjects import (
    LINE,
    bert,
    captioner_rnn,
    captioner_vit,
    language,
    page_payload,
    spread,
    translation,
    vit,
    words,
)  # fmt: skip
from tests.pages import until
from tests.pipelines import pipeline_of

LINES = ["the house lives", "the houses live", "a life in the house", "she lives here"]


def pieces() -> dict[str, Any]:
    """A page of a text whose words are several tokens each."""
    tokenizer = Tokenizer.train(Bpe(vocab=30), LINES, specials=SPECIALS)
    model = spread(build_model(GptConfig(vocab=tokenizer.size, context=64, width=16, layers=1, heads=2)))
    return page_payload(pipeline_of(Language(), model, tokenizer), "the house lives")


@pytest.mark.parametrize("width", [1440, 1024, 800, 390])
def test_a_title_is_not_hidden_by_the_bar(width, show):
    page = show(translation(), viewport={"width": width, "height": 800}, reduced_motion="reduce").page
    links = page.locator("nav a")
    assert links.count() == 9
    assert page.evaluate("document.querySelector('.links').offsetHeight") < 50  # in one line
    for n in (2, 4, 6):
        links.nth(n).evaluate("(each) => each.click()")
        until(page, "(n) => document.querySelectorAll('nav a')[n].getAttribute('aria-current') === 'true'", n)
        top, bar = page.evaluate(
            """(n) => [document.querySelectorAll("section h2")[n].getBoundingClientRect().top,
            document.querySelector("nav").getBoundingClientRect().bottom]""",
            n,
        )
        assert bar <= top < 300
    assert page.locator("nav a[aria-current]").count() == 1


@pytest.mark.parametrize("address", ["#what-if", "#at.source=1&s=what-if"])
def test_an_address_leads_to_a_section(address, show):
    page = show(translation(), hash=address, viewport={"width": 390, "height": 800}).page
    top, bar = page.evaluate("""() => ["#what-if-title", "nav"].map((each) =>
        document.querySelector(each).getBoundingClientRect()).map((box, n) => (n ? box.bottom : box.top))""")
    assert bar + 8 < top < 250
    page.locator("nav a", has_text="Search").click()
    assert "s=search" in page.url


def test_pieces_of_words_are_told_from_words(show):
    found = pieces()
    tokens = found["sequences"]["text"]["tokens"]
    assert "".join(tokens).replace("·", "").strip() == "the house lives"
    page = show(found).page
    shown = page.locator(".tokens .token").all_inner_texts()
    begins = [n for n, token in enumerate(tokens) if token.startswith(" ")]
    assert len(begins) == 3 < len(tokens)
    assert [n for n, text in enumerate(shown) if not text.startswith("·")] == begins
    assert page.locator(".token.joined").count() == len(tokens) - 3
    page.hover(".token >> nth=1")
    assert f"id {found['sequences']['text']['ids'][1]} " in page.inner_text(".tip")
    named = found["output"]["words"]
    assert any(node["piece"].startswith("·") for node in found["trace"]["nodes"])
    assert len(set(named.values())) == len(named)


def test_every_vocabulary_marks_what_continues_a_word():
    ours = Tokenizer.train(Bpe(vocab=30), LINES, specials=SPECIALS)
    bytewise = Tokenizer.train(ByteBpe(vocab=270), LINES, specials=SPECIALS)
    pieces = Tokenizer.train(Unigram(vocab=30, fit=True), LINES, specials=SPECIALS)
    for tokenizer in (ours, bytewise, pieces):
        shown = [tokenizer.display(index) for index in tokenizer.encode(" the house")]
        assert shown[0][0] == " "
        assert {token[0] for token in shown[1:]} <= {" ", "·"}
        assert "".join(shown).replace("·", "") == " the house"
        assert tokenizer.display(tokenizer.stop) == "</s>"
    assert [words().display(index) for index in words().encode("the cat")] == ["the", "cat"]


def test_writing_and_attending_have_different_words(show):
    page = show(translation(), hash="#attention=5&head=0&at.target=1").page
    text = page.inner_text("#story")
    assert re.search(r"Writing \S+ \(after \S+\), attending to \S+: the products add up to", text)
    assert "→" not in text


def test_statistics_of_cross_attention_compare_no_places(show):
    page = show(translation()).page
    page.hover(".group:has-text('attending to the source') .thumb >> nth=0")
    told = page.inner_text(".tip")
    assert "entropy" in told
    assert "on itself" not in told
    assert "distance" not in told
    page.hover(".thumb >> nth=0")
    assert "on itself" in page.inner_text(".tip")


def test_statistics_say_how_many_rows_they_are_of(show):
    page = show(language(" ".join(f"word{n}" for n in range(24)))).page
    page.hover(".thumb >> nth=0")
    assert "16 of 24" in page.inner_text(".tip")


@pytest.mark.parametrize("width", [1440, 390])
def test_the_lens_shows_every_place(width, show):
    line = " ".join(f"word{n}" for n in range(24))
    page = show(language(line), viewport={"width": width, "height": 800}).page
    figure = page.locator("figure", has_text="After each block")
    assert figure.locator(".cell").count() == 24 * 2
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    left, right = figure.evaluate("""(each) => { const box = each.querySelector("text.chosen").getBoundingClientRect();
        return [box.left, box.right]; }""")
    assert 0 <= left < right <= width


def test_a_lens_that_is_cut_says_so(show):
    page = show(language(" ".join(f"word{n}" for n in range(60))), hash="#at.text=30").page
    figure = page.locator("figure", has_text="After each block")
    assert "Places 19 to 42 of 60" in figure.inner_text()


def test_what_is_left_out_is_said(show, monkeypatch):
    monkeypatch.setattr("headway.inspection.page.head_ablation.MAX_OPERATIONS", 0)
    page = show(translation()).page
    assert "without each of 24 heads would take about" in page.inner_text("#what-if")
    assert "--ablate" in page.inner_text("#what-if")
    asked = page_payload(language_pipeline(), "the small cat", ablate=True)
    assert len(asked["ablation"]["heads"]) == 8


def language_pipeline() -> Pipeline:
    tokenizer = words()
    model = build_model(GptConfig(vocab=tokenizer.size, context=32, width=16, layers=2, heads=4))
    return pipeline_of(Language(), spread(model), tokenizer)


def test_a_model_without_probabilities_says_why_no_head_is_switched_off(show):
    tokenizer = words()
    model = spread(build_model(BertConfig(vocab=tokenizer.size, context=32, width=32, layers=1, heads=2, inner=32)))
    explained = explain_text(model, tokenizer, LINE, predicts=False)
    page = show(payload(model, explained, RunFacts(folder="runs/tiny"))).page
    assert "gives vectors, no probabilities" in page.inner_text("#what-if")


def test_a_model_of_one_head_has_no_others(show):
    text = show(captioner_rnn()).page.inner_text("main")
    assert "The head" in text
    assert "Every head" not in text
    assert "Which heads attend there" not in text
    assert "mean of this layer's heads" not in text


def test_patches_are_called_patches(show):
    page = show(vit(), hash="#at.patches=0&key=4").page
    assert "From class token to patch 1·4" in page.inner_text("#attention")


def test_a_special_token_without_neighbours_says_so(show):
    found = bert()
    found["near"]["text"] = {"space": "sentences", "lists": [[] for _ in found["sequences"]["text"]["tokens"]]}
    figure = show(found).page.locator("figure", has_text="the space of sentence vectors")
    assert "has no sentence vector of its own" in figure.inner_text()


def test_the_facts_say_what_the_run_is(show):
    seen = show(language() | {"data": "shakespeare", "score": "best validation loss 1.5"}).page
    facts = seen.inner_text(".facts")
    for told in ("language", "data: shakespeare", "best validation loss 1.5", "step 10"):
        assert told in facts
    imported = show(language() | {"steps": [0]}).page.inner_text(".facts")
    assert "imported" in imported
    assert "step 0" not in imported


def test_what_looks_at_a_picture_is_seen_on_a_black_one(show):
    """Of an all-black picture, patches that are looked at differ in hue from those that are not."""
    found = captioner_vit()
    pixels = found["tensors"][found["image"]["pixels"]]
    count = math.prod(pixels["shape"])
    colours = {}
    for name, level in (("black", 0), ("white", 255)):
        pixels["data"] = base64.b64encode(bytes([level]) * count).decode()
        page = show(found, hash="#attention=2&head=0&at.words=1").page
        figure = page.locator("figure", has_text="On the picture")
        colours[name] = figure.locator("canvas").evaluate("""(canvas) => {
            const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
            let most = 0, least = 255;
            for (let n = 0; n < data.length; n += 4) {
                most = Math.max(most, data[n] - data[n + 2]); least = Math.min(least, data[n] - data[n + 2]); }
            return [most, least]; }""")
        assert "0%" in figure.locator("svg.legend").text_content()
    for most, least in colours.values():
        assert most > 100
        assert most - least > 30


def test_small_things(show):
    page = show(translation()).page
    assert page.get_attribute("#theme", "aria-pressed") == "false"
    page.click("#theme")
    assert page.get_attribute("#theme", "aria-pressed") == "true"
    page.click("text=Copy link")
    page.wait_for_selector("button:text-is('Copy link')", timeout=4000)
    levels = page.evaluate("[...document.querySelectorAll('h1, h2, h3, h4')].map((each) => Number(each.tagName[1]))")
    assert all(after - before <= 1 for before, after in itertools.pairwise(levels))
    axis = page.locator("figure", has_text="what each block adds").first.locator("svg .axis").all_text_contents()
    assert sum(bool(re.fullmatch(r"[\d.]+", text)) for text in axis) >= 4  # ticks, and the numbers of two blocks


def test_what_is_seen_is_drawn_first(show):
    """A figure far below waits for its turn: it is not drawn in the task of the click, but soon after."""
    page = show(translation(), hash="#at.target=1", viewport={"width": 1000, "height": 400}).page
    read = "() => document.querySelector('#output .note:not([hidden]) ~ .stage .note').textContent"
    before = page.evaluate(read)
    at_once = page.evaluate(f"""() => {{ document.querySelectorAll("#input .tokens")[1].children[4].click();
        return ({read})(); }}""")
    assert at_once == before
    page.wait_for_selector("html:not([data-late])", state="attached")
    assert page.evaluate(read) != before


def test_what_is_chosen_stays_in_sight(show):
    page = show(translation(), hash="#attention=5&head=2&at.target=1&key=3&s=what-if").page
    now = page.locator("nav .now")
    assert now.bounding_box()["y"] < 60
    assert "Decoder cross-attention 2, head 3" in now.inner_text()
    before = now.inner_text()
    page.locator("#input .token").first.evaluate("(each) => each.click()")
    assert now.inner_text() != before
