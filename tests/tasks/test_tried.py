"""The policy a run ends with: the best of those that were tried."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

pytest.importorskip("gymnasium")

from headway.data.config import DataConfig
from headway.data.environments import Environment, Plain
from headway.data.episodes import at_random, play
from headway.errors import ConfigError
from headway.models import build_model
from headway.tasks.world_model.tried import TriedPolicy, finished_return
from tests.pipelines import prepared
from tests.worlds import LAKE, MAZE, POLE, TASK, trainer


def pole():
    return Environment("CartPole-v1", Plain())


def episodes(budget):
    return play(pole, at_random(2, 0), iter(range(99)), budget=budget)


def test_episodes_that_the_budget_cut_do_not_count():
    found = episodes(100)
    ended = [n for n in range(len(found)) if found.ends[found.rows(n)].any()]
    assert 0 < len(ended) < len(found)
    assert finished_return(found, 500) == pytest.approx(found.returns[ended].mean())
    cut = replace(found, ends=np.zeros_like(found.ends))
    assert finished_return(cut, 500) == pytest.approx(found.returns.mean())
    assert finished_return(cut, int(found.lengths.max())) == pytest.approx(found.returns.max())  # the limit is no cut


def test_the_best_tried_policy_acts_as_it_did(monkeypatch):
    torch.manual_seed(0)
    model, tried, scores = build_model(POLE), TriedPolicy(), iter([3.0, 9.0, 5.0, 9.0])
    monkeypatch.setattr("headway.tasks.world_model.tried.finished_return", lambda *given: next(scores))
    states, kept = torch.randn(6, 4), []
    for n in range(4):
        with torch.no_grad():
            torch.nn.init.normal_(model.actor.out.weight)
            kept.append(model.actor(model.reader.normal(states)))
        tried.judge(model, episodes(40), 500)
        model.renormalise((n + 1) * torch.randn(50, 4), torch.randn(50, 4))
        tried.restore(model)
        with torch.no_grad():
            found = model.actor(model.reader.normal(states))
        torch.testing.assert_close(found, kept[(0, 1, 1, 3)[n]], atol=1e-4, rtol=1e-4)


def test_the_last_round_puts_it_back(tmp_path):
    made = trainer(tmp_path, POLE, "CartPole-v1", replace(TASK, final_policy="tried"))
    for _ in range(8):
        made.advance()
    held, actor = made.task.tried.held, made.model.actor.state_dict()
    assert torch.equal(held["middle.weight"], actor["middle.weight"])
    assert "tried.score" in made.task.state()


@pytest.mark.parametrize(
    ("model", "name", "allowed"), [(MAZE, "headway/TMaze-v0", False), (LAKE, "FrozenLake-v1", True)]
)
def test_a_policy_whose_inputs_are_learned_anew_is_not_put_back(model, name, allowed, tmp_path):
    config = replace(TASK, final_policy="tried")
    if allowed:
        assert prepared(config, DataConfig(spec=name), model, folder=tmp_path, batch_tokens=48)
        return
    with pytest.raises(ConfigError, match=r"task.final_policy=tried, allowed here: newest"):
        prepared(config, DataConfig(spec=name), model, folder=tmp_path, batch_tokens=48)
