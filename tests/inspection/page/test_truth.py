"""Numbers as they are printed: each within its last figure of what PyTorch computed, whatever the file stores."""

from __future__ import annotations

import base64
import math
import re
from typing import Any

import numpy as np
import pytest
import torch

from headway.inspection.capture import capture
from headway.models import GptConfig, build_model
from headway.nn.positions import Learned
from headway.tasks.language_modelling import Language
from tests.inspection.page.subjects import KINDS, LINE, language, page_payload, spread, translation, words
from tests.pipelines import pipeline_of


def table(page: Any, title: str) -> list[list[str]]:
    """The rows of the table behind the figure with this title."""
    figure = page.locator("figure", has=page.locator("figcaption", has_text=title)).first
    button = figure.locator("button.numbers")
    if button.get_attribute("aria-expanded") == "false":
        button.click()
    rows: list[list[str]] = figure.locator("table").first.evaluate(
        "(table) => [...table.tBodies[0].rows].map((row) => [...row.cells].map((cell) => cell.textContent))"
    )
    return rows


def number(text: str) -> tuple[float, float]:
    """A printed number, and the unit of its last figure."""
    plain = text.replace("−", "-")
    digits, _, power = plain.partition("e")
    places = len(digits.partition(".")[2])
    return float(plain), 10.0 ** (int(power or 0) - places)


def off(text: str, truth: float) -> float:
    """How far a printed number is from the truth, in units of its last figure; 32 bits are the truth's own limit."""
    value, unit = number(text)
    return abs(value - truth) / (unit + 1e-6 * abs(truth))


@pytest.mark.parametrize("kind", ["translation", "language, learned", "masked", "image"])
def test_embedding_and_position_add_up_as_printed(kind, show):
    page = show(KINDS[kind]()).page
    rows = [[number(cell)[0] for cell in row[1:4]] for row in table(page, "what goes in")]
    assert len(rows) == 32
    assert max(abs(first + position - together) for first, position, together in rows) <= 1e-6


def test_the_sinusoid_is_the_slides(show):
    page = show(translation(), hash="#at.source=1").page
    position = [row[2] for row in table(page, "Encoder: what goes in")]
    assert position[0] == f"{math.sin(1):.7f}"
    assert abs(number(position[1])[0] - math.cos(1)) < 1e-6


@pytest.mark.parametrize("precision", ["float32", "int16"])
def test_vectors_and_weights_are_pytorchs_to_the_last_figure(precision, show, monkeypatch):
    if precision == "int16":
        monkeypatch.setattr("headway.inspection.page.payload.EXACT", 0)
    tokenizer = words()
    config = GptConfig(vocab=tokenizer.size, context=64, width=32, layers=2, heads=4, position=Learned())
    model = spread(build_model(config))
    payload = page_payload(pipeline_of(Language(), model, tokenizer), LINE)
    assert payload["precision"] == precision
    ids = payload["sequences"]["text"]["ids"]
    with torch.no_grad(), capture(model, what=["residual", "weights", "heads", "q", "k"]) as seen:
        model(torch.tensor([ids]))
    place, head = 7, 2
    page = show(payload, hash=f"#at.text={place}&attention=1&head={head}").page
    for column, layer in ((1, 0), (2, 1)):
        truth = seen[f"layers.{layer}.residual"][0, place].tolist()
        assert max(map(off, [row[column] for row in table(page, "the stream")], truth)) <= 1
    weights = seen["layers.1.self.weights"][0, head, place].tolist()
    assert max(map(off, [row[1] for row in table(page, "layer 2, head 3")], weights)) <= 1
    scores = table(page, "From products to weights")
    assert max(map(off, [row[6] for row in scores], weights)) <= 1
    q, k = (seen[f"layers.1.self.{part}"][0, head] for part in "qk")
    assert max(map(off, [row[1] for row in scores], (k @ q[place]).tolist())) <= 1
    mixed = seen["layers.1.self.heads"][0, head, place].tolist()
    passed = table(page, "Weighted values")
    assert max(map(off, [row[1] for row in passed], mixed)) <= 1
    assert max(map(off, [row[2] for row in passed], mixed)) <= 1


def test_the_attention_of_a_search_is_printed_as_finely_as_it_was_recorded(show):
    payload = translation()
    page = show(payload).page
    look = payload["tensors"][payload["trace"]["looks"][0]]
    weights = np.frombuffer(base64.b64decode(look["data"]), "<f4").reshape(look["shape"])
    for row, truth in zip(table(page, "What each token attended to"), weights, strict=True):
        assert all(number(cell)[1] >= truth.max() / 255 for cell in row[1:])


def test_the_badge_covers_vectors_and_probabilities(show):
    payload = language()
    seen = show(payload)
    seen.difference()
    assert seen.page.inner_text("#badge") == "Agrees with PyTorch"
    text = seen.page.inner_text("#agreement")
    assert re.search(r"attention \S+ \([\d,]+ rows\), vectors \S+ \([\d,]+ numbers\), probabilities \S+ \(\d+\)", text)
    stream = payload["stacks"][0]["layers"][0]["left"]
    for name in (payload["stacks"][0]["input"][0]["tensor"], stream, payload["output"]["logits"]):
        kept = payload["tensors"][name]
        spoilt = base64.b64decode(kept["data"])[4:] + b"\0\0\0\0"  # every number in its neighbour's place
        other = payload["tensors"] | {name: kept | {"data": base64.b64encode(spoilt).decode()}}
        page = show(payload | {"tensors": other})
        page.difference()
        assert "bad" in page.page.get_attribute("#badge", "class")


def test_a_block_is_added_up_beside_pytorchs_stream(show):
    page = show(translation()).page
    figure = page.locator("figure", has=page.locator("figcaption:text-is('Decoder: one token through a block')"))
    figure.locator("button.tab").first.click()
    assert re.search(r"differ by (0|\d\.\de−[78]) at most", figure.locator(".stage .note").inner_text())
    figure.locator("button.numbers").click()
    header, *rows = figure.locator("tr").evaluate_all(
        "rows => rows.map(row => [...row.children].map(cell => cell.textContent))"
    )
    assert header == ["dimension", "x, what enters", "+ attention", "= sum", "norm", "+ cross-attention", "= sum",
                      "norm", "+ network", "= sum", "norm", "PyTorch"]  # fmt: skip
    for row in rows:
        numbers = [float(text.replace("−", "-")) for text in row[1:]]
        assert abs(numbers[0] + numbers[1] - numbers[2]) <= 1.5e-4 * max(map(abs, numbers))
        assert row[-1] == row[-2] or abs(numbers[-1] - numbers[-2]) <= 1e-4 * abs(numbers[-1])
