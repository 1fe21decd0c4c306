"""A request's tokens and log-probabilities are, to the bit, those of the request alone."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from torch import Tensor

from headway.decoding.company import row_difference
from headway.decoding.row_batch import RowBatch, prepare, row_multiple
from headway.models import build_model
from headway.nn.int8 import LayerChoice, quantise, supported
from headway.serving.requests import Request
from tests.models import tiny
from tests.serving import campaign
from tests.serving.companions import SEARCHED, model_of, request

FORMS = ("gpt-alibi", "gpt-windows", "gpt-shaw", "gpt-t5", "gpt-reference-kernel", "rnn-lm-gru-one-hot")
CASES = [
    *itertools.product(("gpt-learned", "gpt-llama", "rnn-lm-lstm-tied"), ("fp32", "bf16", "int8")),
    *((name, "fp32") for name in FORMS),
]


def shifted(step: Callable[..., Tensor], least: int) -> Callable[..., Tensor]:
    """A step whose logits are larger by a millionth where there are at least so many rows."""
    return lambda batch, tokens: step(batch, tokens) + (1e-6 if len(tokens) >= least else 0.0)


@pytest.mark.parametrize(("name", "precision"), CASES)
@settings(max_examples=3, deadline=None, derandomize=True)
@given(arriving=campaign.arrivals(campaign.requests))
def test_company_changes_no_bit(name: str, precision: str, arriving: list[tuple[int, Request, int | None]]) -> None:
    counts = campaign.requests_together(model_of(name, precision), arriving)
    assert counts.wrong == []
    assert counts.requests == len(arriving)


@pytest.mark.parametrize(("name", "precision"), [("captioner-rnn-lstm", "fp32"), ("speech-transformer", "bf16")])
@settings(max_examples=2, deadline=None, derandomize=True)
@given(arriving=campaign.arrivals(campaign.searches))
def test_company_changes_no_bit_of_a_search(name: str, precision: str, arriving: list[Any]) -> None:
    """Those of translations are in tests/decoding/test_joint_search.py."""
    counts = campaign.searches_together(model_of(name, precision), SEARCHED[name], arriving)
    assert counts.wrong == []
    assert counts.requests == len(arriving)


@pytest.mark.parametrize("threads", campaign.THREADS)
@pytest.mark.parametrize("precision", campaign.PRECISIONS)
def test_every_number_of_rows(precision: str, threads: int) -> None:
    with campaign.threads(threads):
        counts = campaign.every_size(model_of("gpt-llama", precision))
    assert counts.sizes == set(range(1, 65))
    assert counts.wrong == []


def test_the_campaign_counts_what_differs(monkeypatch: pytest.MonkeyPatch) -> None:
    arriving = [(0, request("", (n + 1, 2), 9, seed=n), None) for n in range(6)]
    model = model_of("gpt-learned")
    assert not campaign.requests_together(model, arriving).wrong
    monkeypatch.setattr(RowBatch, "step", shifted(RowBatch.step, least=4))
    counts = campaign.requests_together(model, arriving)
    assert counts.requests == 6
    assert counts.wrong
    assert campaign.every_size(model, 8).wrong


@pytest.mark.slow  # minutes
def test_the_campaign() -> None:
    assert campaign.main([]) == 0


@pytest.mark.parametrize("precision", ["fp32", "int8"])
@pytest.mark.parametrize("name", ["gpt-llama", "rnn-lm-lstm-tied"])
def test_a_served_model_is_found_exact(name: str, precision: str) -> None:
    assert row_difference(model_of(name, precision), vocab=tiny.VOCAB, context=32) == 0  # type: ignore[arg-type]


def test_int8_with_one_scale_a_call_is_found_not_to_be_exact() -> None:
    torch.manual_seed(0)
    model = build_model(tiny.LANGUAGE["gpt-learned"], device="cpu").eval()
    quantise(model)  # and not prepared: a plain 8-bit layer has one scale for all rows
    assert row_difference(model, vocab=tiny.VOCAB, context=32) > 0  # type: ignore[arg-type]


def test_a_model_whose_rows_see_each_other_is_found_not_to_be_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    model = model_of("gpt-learned")
    monkeypatch.setattr(RowBatch, "step", shifted(RowBatch.step, least=9))
    assert row_difference(model, vocab=tiny.VOCAB, context=32) > 0  # type: ignore[arg-type]


def test_rows_are_a_multiple_of_four_and_more_where_bfloat16_products_are_very_small() -> None:
    assert row_multiple(model_of("gpt-learned")) == 4
    smallest = 16 * 16  # the attention's output
    assert row_multiple(model_of("gpt-learned", "bf16")) * smallest > 16**3
    assert row_multiple(torch.nn.Linear(512, 512).bfloat16()) == 4


@pytest.mark.skipif(not supported(), reason="no 8-bit product on this machine")
def test_rows_of_8_bit_products_need_no_company() -> None:
    assert row_multiple(model_of("gpt-learned", "int8")) == 1
    assert row_multiple(model_of("gpt-shaw", "int8")) == 4  # its tables are multiplied in float32
    torch.manual_seed(0)
    model = build_model(tiny.LANGUAGE["gpt-learned"], device="cpu").eval()
    quantise(model, {"head": LayerChoice("fp32")})
    prepare(model)
    assert row_multiple(model) == 4  # and so is the embedding, by a tied head that stays in float32
    assert row_difference(model, vocab=tiny.VOCAB, context=32) == 0  # type: ignore[arg-type]
