"""What Python and a notebook show of runs, reports, masks and captures."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest
import torch

import headway
from headway import display
from headway.cli import main
from headway.ops import Listed, Packed, Table
from tests.cli.test_commands import parallel, train_words


class _Balance(HTMLParser):
    """Raises for an element that is not closed in order."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.feed(html)
        assert not self.open

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: object) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def shown(value: object) -> str:
    html: str = value._repr_html_()  # type: ignore[attr-defined]
    _Balance(html)
    assert "<script" not in html
    return html


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> headway.runs.Run:
    folder = tmp_path_factory.mktemp("display")
    cache = ["--data.cache", str(folder / "cache")]
    assert main(train_words(parallel(folder / "data"), folder / "run", cache)) == 0
    return headway.load(folder / "run")


def test_a_run_says_what_it_is(run):
    """TRIALS B friction: `repr(run)` was an address."""
    assert re.fullmatch(r"<Run '.*run': .*; encoder-decoder, [\d,]+ parameters; step \d+; fp32 on cpu>", repr(run))
    html = shown(run)
    assert "translate, score" in html
    assert repr(run.tokenizer).startswith("<Tokenizer: ")


def test_an_evaluation_and_a_capture_are_shown(run):
    report = run.evaluate(split="val")
    assert repr(report).startswith("Report(val: ")
    assert len(repr(report)) < 2000
    html = shown(report)
    assert html.count("<table>") >= 2
    with headway.capture(run.model, layers=[0]) as seen:
        assert "nothing was captured" in shown(seen)
        run.translate(["a b c"])
    html = shown(seen)
    assert "decoder.layers.0.cross.weights" in html
    assert html.count("<svg") >= 2
    assert repr(seen).startswith("CaptureResult([Pass(")


def test_a_verification_is_shown(run):
    report = run.verify(["a b"])
    assert re.fullmatch(r"VerificationReport\(\d+ checks, no bugs\)", repr(report))
    assert "left padding" in shown(report) or "padding" in shown(report)


@pytest.mark.parametrize(
    ("mask", "cells"),
    [
        (headway.Causal(), 78),  # 12 queries see 1 to 12 keys
        (headway.Lengths(torch.tensor([3, 5])), 15),  # the first row: 5 queries, 3 keys
        (headway.Causal() & headway.Lengths(torch.tensor([4])), 10),
        (Packed(torch.tensor([[0, 0, 1]])), 5),
        (headway.Causal() & Packed(torch.tensor([[0, 0, 1]])), 4),
        (Table(torch.tensor([[[True, False], [True, True]]])), 3),
        (Listed(torch.tensor([[[0], [1]]])), 2),
    ],
)
def test_a_mask_is_drawn(mask, cells):
    html = shown(mask)
    assert html.count("<rect") == cells


def test_a_mask_that_cannot_be_drawn_is_named():
    assert "<svg" not in shown(headway.Lengths(torch.tensor([5000])))
    assert "<svg" not in shown(Packed(torch.zeros(1, 3)) & Packed(torch.zeros(1, 4)))


def test_text_is_escaped():
    html = display.facts({"<b>": "<script>"}, "<i>") + display.figures(["<u>"], [["<s>"]]) + display.grid([[1]], '"<a>')
    assert not re.search(r"<(b>b|script|i|u|s|a)>", html.replace("<b>&lt;i&gt;</b>", ""))
