"""A second model on the page, and attention over training: every number is PyTorch's to its last figure."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import headway
from headway.reliability.runs import TINY
from headway.runs.train import train_run
from headway.tasks.base import Pipeline
from tests.inspection.page.test_browser import barriers
from tests.inspection.page.test_every_number import off
from tests.inspection.page.test_keyboard import stops
from tests.inspection.page.test_touch import SMALL
from tests.pages import payload_of, until

GIVEN = "a cat"
STEPS = {"model.context": 64, "train.steps": 8, "train.evaluate_every": 4, "train.save_every": 4,
         "train.learning_rate": 0.05, "train.average": 0,
         "train.keep_looks": f"{GIVEN} ||| un chat"}  # fmt: skip


def look_of_two(run: headway.Run, path: Path) -> tuple[int, int]:
    """Write the page of two checkpoints, with the looks that training kept; their steps."""
    (best,) = run.steps
    other = next(step for step in (4, 8) if step != best)
    run.look(out=path, beside=other)
    return best, other


def table(page: Any, name: str) -> list[list[str]]:
    figure = page.locator(f"figure[data-figure='{name}']")
    figure.locator("button.numbers").click()
    rows: list[list[str]] = figure.locator("tbody tr").evaluate_all(
        "rows => rows.map(row => [...row.children].map(cell => cell.textContent))"
    )
    return rows


def weights(pipeline: Pipeline, explanation: Any, attention: str) -> torch.Tensor:
    """(H, T, S) of one attention."""
    with headway.capture(pipeline.model, what=["weights"]) as seen, torch.no_grad():
        explanation.forward()
    return seen.last[f"{attention}.weights"][0].double()


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> headway.Run:
    folder = tmp_path_factory.mktemp("beside")
    train_run(TINY["translation"].config(folder / "cache", STEPS), folder / "run")
    return headway.load(folder / "run", device="cpu")


@pytest.mark.parametrize(("width", "scheme"), [(1440, "light"), (390, "dark")])
def test_numbers_of_two_checkpoints_and_of_every_step(run, show, tmp_path, width, scheme):
    best, other = look_of_two(run, tmp_path / "page.html")
    payload = payload_of(tmp_path / "page.html")
    entry = next(n for n, each in enumerate(payload["attentions"]) if each["kind"] == "cross")
    name, head, query = payload["attentions"][entry]["name"], 1, 1
    address = f"#attention={entry}&head={head}&at.target={query}&key=0"
    seen = show(payload, hash=address, viewport={"width": width, "height": 900}, color_scheme=scheme)
    page = seen.page
    seen.difference()
    written = [target for target in run.pipeline.explain(GIVEN).output.targets if target is not None]
    truths = {}
    for step in (best, other):
        pipeline = run.at(step)
        truths[step] = weights(pipeline, pipeline.token_writer(GIVEN).explain(written), name)[head, query]
    for row, own, theirs in zip(table(page, "two-models"), truths[best], truths[other], strict=True):
        assert off(row[1], own.item()) <= 1
        assert off(row[2], theirs.item()) <= 1
        assert abs(float(row[3].replace("\u2212", "-")) - (theirs - own).item()) <= 2e-4
    # Over training: at a step with a checkpoint, the largest weight that the page prints is that checkpoint's.
    rows = {row[0]: row for row in table(page, "over-training")}
    assert list(rows) == ["0", "1", "2", "4", "8"]
    for step in (4, 8):
        pipeline = run.at(step)
        writer = pipeline.token_writer(GIVEN)
        ids = [*writer.tokenizer.encode("un chat"), writer.tokenizer.stop]
        assert off(rows[str(step)][3], weights(pipeline, writer.explain(ids), name)[head, query].max().item()) <= 1
    page.locator("#lapse").fill("0")
    assert "lapse=0" in page.url
    page.locator("figure[data-figure='heads-over-training'] canvas").focus()
    page.keyboard.press("ArrowRight")
    assert "lapse=1" in page.url
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert not barriers(page)
    assert not seen.faults


@pytest.mark.parametrize(("width", "scheme"), [(1440, "dark"), (390, "light")])
def test_two_checkpoints_and_every_step_in_firefox(run, firefox, tmp_path, width, scheme):
    look_of_two(run, tmp_path / "page.html")
    address = f"{(tmp_path / 'page.html').as_uri()}#theme={scheme}&lapse=0"
    page = firefox.open(address, width=width)
    until(page, "() => document.querySelector('.badge.good') !== null")
    found = stops(page)
    assert 15 < len(found) <= 60
    assert all(found)
    rows = """(name) => { const figure = document.querySelector(`figure[data-figure="${name}"]`);
        figure.querySelector("button.numbers").click();
        return [...figure.querySelectorAll("tbody tr")].map(row => [...row.cells].map(cell => cell.textContent)); }"""
    for _, own, other, difference in page.evaluate(rows, "two-models"):
        numbers = [float(each.replace("\u2212", "-")) for each in (own, other, difference)]
        assert numbers[1] - numbers[0] == pytest.approx(numbers[2], abs=2e-4)
    assert [row[0] for row in page.evaluate(rows, "over-training")] == ["0", "1", "2", "4", "8"]
    page.evaluate("document.querySelector('figure[data-figure=heads-over-training] canvas').focus()")
    page.keyboard.press("ArrowRight")
    assert "lapse=1" in page.evaluate("location.hash")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert page.evaluate(SMALL) == []
    assert not barriers(page)
    assert not page.faults()
    page.close()
