"""Large inputs: a page of GPT-2's size opens at once and stays small; a text of 2,048 tokens pans and zooms."""

from __future__ import annotations

import time

import pytest

from headway.data.tokenizers import Characters, Tokenizer
from headway.inspection.page.html import document
from headway.inspection.page.tensors import indices_that_fit
from headway.models import GptConfig, build_model
from headway.nn.positions import Rotary
from headway.tasks.language_modelling import Language
from tests.inspection.page.subjects import page_payload
from tests.pipelines import pipeline_of


def written(*, tokens: int, width: int, layers: int, heads: int) -> dict:
    tokenizer = Tokenizer.train(Characters(), ["to be or not to be, that is the question"])
    config = GptConfig(
        vocab=tokenizer.size, context=tokens + 12, width=width, layers=layers, heads=heads, position=Rotary()
    )
    text = ("to be or not to be, that is the question " * (tokens // 40 + 1))[:tokens]
    return page_payload(pipeline_of(Language(), build_model(config), tokenizer), text)


def test_what_does_not_fit_is_thinned_out_evenly():
    assert indices_that_fit([1, 1, 1, 1], 4) == [0, 1, 2, 3]
    assert indices_that_fit([1] * 12, 4) == [0, 4, 7, 11]
    assert indices_that_fit([5, 5], 6) == [1]
    assert indices_that_fit([5, 5], 3) == []
    assert indices_that_fit([], 3) == []


@pytest.mark.slow  # it reads a clock
def test_twelve_by_twelve_heads_of_128_tokens_are_painted_within_two_seconds(show):
    payload = written(tokens=128, width=768, layers=12, heads=12)
    assert len(payload["attentions"]) == 12
    assert len(document(payload).encode()) < 15e6
    began = time.perf_counter()
    seen = show(payload)
    first = seen.page.evaluate(
        "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? performance.now()"
    )
    assert first < 2000, f"first paint after {first:.0f} ms"
    assert seen.difference() <= 1e-3
    assert time.perf_counter() - began < 15
    assert not seen.faults


@pytest.mark.slow  # a forward pass of GPT-2's size
@pytest.mark.parametrize("tokens", [16, 512, 1024, 2048])
def test_no_length_makes_a_file_of_more_than_fifteen_megabytes(tokens):
    payload = written(tokens=tokens, width=768, layers=12, heads=12)
    assert len(document(payload).encode()) <= 15e6
    assert payload["attentions"] or tokens == 2048  # of which one layer takes 15 MB


@pytest.mark.slow  # it reads a clock
def test_two_thousand_tokens_pan_and_zoom(show):
    payload = written(tokens=2048, width=256, layers=2, heads=4)
    assert len(document(payload).encode()) < 15e6
    seen = show(payload)
    page = seen.page
    whole = page.evaluate("document.querySelector('canvas.matrix').toDataURL()")
    took = []
    page.evaluate("document.querySelector('canvas.matrix').scrollIntoView({block: 'center'})")
    for _ in range(6):
        took.append(
            page.evaluate("""() => { const from = performance.now();
            document.querySelector("button[aria-label='Zoom in']").click(); return performance.now() - from; }""")
        )
    box = page.locator("canvas.matrix").bounding_box()
    page.mouse.move(box["x"] + 400, box["y"] + 300)
    page.mouse.down()
    for n in range(20):
        page.mouse.move(box["x"] + 400 - 8 * n, box["y"] + 300 - 6 * n)
    page.mouse.up()
    assert page.evaluate("document.querySelector('canvas.matrix').toDataURL()") != whole
    assert sorted(took)[-2] < 150, f"a zoom took {took} ms"  # the first one also makes room for what is new
    assert seen.difference() <= 1e-3
    assert not seen.faults
