"""The ponder term of the loss, and the mean steps of an evaluation."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from headway.data.config import DataConfig
from headway.data.tokenizers import Word
from headway.models import build_model
from headway.nn.adaptive_computation import Adaptive, Fixed
from headway.nn.universal_stack import record_steps
from headway.tasks.adaptive_depth import mean_steps
from headway.tasks.translation.training import Translation, TranslationTraining
from tests.models.tiny import TRANSLATOR, UNIVERSAL
from tests.pipelines import prepared

ADAPTIVE = Adaptive(steps=5, bias=-3.0, ponder=0.1)


@pytest.fixture
def task(tmp_path) -> TranslationTraining:
    lines = [" ".join(map(str, np.random.default_rng(n).integers(0, 9, n % 7 + 1))) for n in range(20)]
    for split in ("train", "val"):
        for side in ("en", "fr"):
            (tmp_path / f"{split}.{side}").write_text("".join(f"{line}\n" for line in lines))
    data = DataConfig(spec=str(tmp_path), tokenizer=Word(), cache=str(tmp_path / "cache"))
    return prepared(Translation(), data, batch_tokens=512).training


def build(halting):
    return build_model(replace(UNIVERSAL, halting=halting, dropout=0.0, offsets=None), seed=1)


def test_the_term_is_the_weighted_mean_cost_of_both_sides(task):
    model, batch = build(ADAPTIVE), task.batch(task.order.epoch(0)[0])
    with record_steps(model) as heard:
        model(*batch.inputs)
    means = [float(cost[steps > 0].mean()) for _, steps, cost in heard]
    terms = task.loss(model, batch)
    term = terms["ponder"]
    assert set(terms) == {"ponder", "next_token"}
    assert float(term.weight * term.total / batch.count) == pytest.approx(0.1 * sum(means), rel=1e-5)


def test_the_term_reaches_the_halting_units_and_padding_costs_nothing(task):
    model, batch = build(ADAPTIVE), task.batch(task.order.epoch(0)[0])
    task.loss(model, batch)["ponder"].total.backward()
    for side in (model.encoder, model.decoder):
        assert side.halt.weight.grad.abs().sum() > 0
    lengths = [part for part in batch.inputs if part is not None and part.ndim == 1]
    with record_steps(model) as heard:
        model(*batch.inputs)
    assert [int((steps > 0).sum()) for _, steps, _ in heard] == [int(each.sum()) for each in lengths]


def test_without_a_choice_or_a_price_there_is_no_term(task):
    batch = task.batch(task.order.epoch(0)[0])
    for model in (build(Fixed(steps=2)), build(replace(ADAPTIVE, ponder=0.0)), build_model(TRANSLATOR)):
        assert set(task.loss(model, batch)) == {"next_token"}


def test_a_price_makes_thinking_shorter(task):
    taken = []
    for price in (0.0, 1.0):
        model = build(replace(ADAPTIVE, ponder=price))
        optimiser = torch.optim.Adam(model.parameters(), lr=1e-2)
        for step in range(30):
            batch = task.batch(task.order.epoch(step)[0])
            optimiser.zero_grad()
            sum(term.weight * term.total / batch.count for term in task.loss(model, batch).values()).backward()
            optimiser.step()
        taken.append(task.forced(model.eval(), torch.device("cpu"), "val").steps)
    assert taken[1]["mean_steps_encoder"] < taken[0]["mean_steps_encoder"]
    assert taken[1]["mean_steps_decoder"] < taken[0]["mean_steps_decoder"]


def test_mean_steps_are_over_all_tokens_of_all_batches(task):
    with mean_steps(build(Fixed(steps=3))) as steps:
        pass
    assert steps == {}
    model = build(Fixed(steps=3))
    with mean_steps(model) as steps:
        for indices in task.order.epoch(0):
            model(*task.batch(indices).inputs)
    assert steps == {"mean_steps_encoder": 3.0, "mean_steps_decoder": 3.0}
    with mean_steps(build_model(TRANSLATOR)) as steps:
        pass
    assert steps == {}
