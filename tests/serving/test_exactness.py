"""A request's tokens and log-probabilities are, to the bit, those of the request alone."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from headway.decoding.company import row_difference
from headway.decoding.row_batch import RowBatch, prepare, row_multiple
from headway.models import build_model
from headway.nn.int8 import LayerChoice, quantise, supported
from headway.serving.requests import Request, SamplingFields
from headway.serving.scheduler import Scheduler
from tests.models import tiny
from tests.serving.companions import SMALL, alone, model_of

FORMS = ("gpt-alibi", "gpt-windows", "gpt-shaw", "gpt-t5", "gpt-reference-kernel", "rnn-lm-gru-one-hot")
CASES = [
    *itertools.product(("gpt-learned", "gpt-llama", "rnn-lm-lstm-tied"), ("fp32", "bf16", "int8")),
    *((name, "fp32") for name in FORMS),
]

samplings = st.builds(
    SamplingFields,
    temperature=st.sampled_from([0.0, 0.7, 1.0]),
    top_k=st.sampled_from([None, 5]),
    top_p=st.sampled_from([1.0, 0.8]),
    repetition_penalty=st.sampled_from([1.0, 1.3]),
    frequency_penalty=st.sampled_from([0.0, 0.5]),
)
requests = st.builds(
    Request,
    id=st.just(""),
    client=st.sampled_from(["a", "b"]),
    # Some begin alike, so that what is known of one is used for another.
    prompt=st.tuples(
        st.sampled_from([(), (5, 9, 2, 7), (5, 9, 2, 7, 1, 1, 8, 4)]),
        st.lists(st.integers(0, tiny.VOCAB - 1), min_size=1, max_size=5).map(tuple),
    ).map(lambda parts: (*parts[0], *parts[1])),
    max_tokens=st.integers(1, 9),
    sampling=samplings,
    seed=st.integers(0, 99),
    stops=st.sampled_from([(), (3,)]),
    top=st.sampled_from([0, 2]),
    prompt_log_probs=st.booleans(),
)
# (when a request arrives, the request, when it is cancelled if at all)
arrivals = st.lists(
    st.tuples(st.integers(0, 12), requests, st.one_of(st.none(), st.integers(1, 20))), min_size=5, max_size=9
)


@pytest.mark.parametrize(("name", "precision"), CASES)
@settings(max_examples=3, deadline=None, derandomize=True)
@given(arriving=arrivals)
def test_company_changes_no_bit(name: str, precision: str, arriving: list[tuple[int, Request, int | None]]) -> None:
    model = model_of(name, precision)
    scheduler = Scheduler(model, SMALL)  # type: ignore[arg-type]
    numbered = [(at, replace(each, id=str(n)), cancel) for n, (at, each, cancel) in enumerate(arriving)]
    events: dict[str, list[object]] = {each.id: [] for _, each, _ in numbered}
    step = 0
    while step < 30 or not scheduler.idle:
        for at, each, cancel in numbered:
            if at == step:
                assert scheduler.offer(each) is None
            if cancel is not None and at + cancel == step:
                scheduler.cancel(each.id)
        for event in scheduler.step(0.0):
            events[event.id].append(event)
        step += 1
    assert scheduler.reserved == 0
    for _, each, _ in numbered:
        expected = alone(model, each)
        got = events[each.id]
        if got and got[-1].ended == "cancelled":  # type: ignore[attr-defined]
            assert got[:-1] == expected[: len(got) - 1]
        else:
            assert got == expected


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
    step = RowBatch.step

    def shifted(self: RowBatch[object], tokens: list[int]) -> Tensor:
        return step(self, tokens) + (1e-6 if len(tokens) > 8 else 0.0)

    monkeypatch.setattr(RowBatch, "step", shifted)
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
