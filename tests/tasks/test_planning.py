"""Worlds as tables: planning by value iteration, and what a policy loses."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch

pytest.importorskip("gymnasium")

from headway.data.config import DataConfig
from headway.data.environments import Environment, Plain
from headway.data.episodes import at_random, play, seeds_to_learn
from headway.errors import ConfigError
from headway.models import build_model
from headway.tasks.world_model.evaluation import familiar, policy_regret, report
from headway.tasks.world_model.imagination import greedy
from headway.tasks.world_model.learners import ValueIteration
from headway.tasks.world_model.planning import (
    MarkovTable,
    counted_table,
    data_error,
    learned_table,
    plan,
    regret,
    true_table,
)
from headway.tasks.world_model.policy import exploring
from headway.tasks.world_model.schedule import Round
from tests.pipelines import prepared
from tests.training.small import state_hash
from tests.worlds import LAKE, POLE, TASK, TRAIN, task, trainer

CPU = torch.device("cpu")
make = partial(Environment, "FrozenLake-v1", Plain())
PLANNED = replace(TASK, learner=ValueIteration(), explore=0.5, windows="distinct")


def chain() -> MarkovTable:
    """In state 0, action 0 stays and earns 1, action 1 moves to 1 for nothing; there action 0 earns 5 and ends."""
    chances, rewards, ends = (np.zeros((2, 2, 2)) for _ in range(3))
    chances[0, 0, 0] = chances[0, 1, 1] = chances[1, 0, 1] = chances[1, 1, 1] = 1
    rewards[0, 0, 0], rewards[1, 0, 1], ends[1, 0, 1] = 1, 5, 1
    return MarkovTable(chances, rewards, ends, np.array([1.0, 0.0]))


def test_value_iteration_by_hand():
    found = chain().value_iteration(0.5)
    # In 1: 5 and an end. In 0: moving is worth 5 / 2, staying once 1 + 2.5 / 2.
    assert found[1] == pytest.approx([5, 2.5])
    assert found[0] == pytest.approx([2.25, 2.5])
    assert chain().value_iteration(0.9)[0] == pytest.approx([10, 4.5])  # staying for ever: 1 / (1 - 0.9)


def test_returns_within_a_limit_by_hand():
    table = chain()
    assert [table.optimum(limit) for limit in (0, 1, 2, 3, 7)] == [0, 1, 5, 6, 10]  # stays, and moves in time
    assert table.policy_return(np.array([1, 0]), 9) == 5
    assert table.policy_return(np.array([0, 0]), 9) == 9
    assert table.policy_return(np.array([1, 0]), 1) == 0
    assert table.reachable().tolist() == [True, True]
    assert replace(table, starts=np.array([0.0, 1.0])).reachable().tolist() == [False, True]


def test_frozen_lake_has_its_known_optimum():
    table = true_table(make())
    assert table.optimum(100) == pytest.approx(0.744, abs=5e-4)
    best = table.value_iteration(0.99).argmax(-1)
    assert table.policy_return(best, 100) == pytest.approx(0.740, abs=5e-4)
    assert np.flatnonzero(~table.reachable()).tolist() == [5, 7, 11, 12, 15]  # holes and the goal
    played = play(make, lambda seen: best[seen[:, 0]], seeds_to_learn(3), budget=8000)
    finished = played.ends[played.starts[1:] - 2] | (played.lengths == 100)
    mean = float(played.returns[finished].mean())
    assert mean == pytest.approx(table.policy_return(best, 100), abs=0.1)
    assert true_table(Environment("CartPole-v1", Plain())) is None


def test_frequencies_come_near_the_true_table():
    true = true_table(make())
    found, visits = counted_table(play(make, at_random(4, 1), seeds_to_learn(1), budget=6000), 16, 4)
    often = visits > 400
    assert often.sum() >= 4
    assert np.abs(found.chances - true.chances)[often].sum(-1).max() < 0.2
    assert visits.sum() == 6000
    reached = true.reachable()
    assert visits[~reached].sum() == 0
    assert not found.chances[~reached].any()  # an action never taken leads nowhere
    assert (found.ends[..., 15][found.chances[..., 15] > 0] == 1).all()
    assert (found.rewards[..., 15][found.chances[..., 15] > 0] == 1).all()


def test_finite_data_leave_an_error_in_the_imagined_return():
    """The bootstrap's standard error is that of tables learned from other episodes of the same number."""
    best = true_table(make()).value_iteration(0.99).argmax(-1)

    def collected(seed):
        return play(make, lambda seen: best[seen[:, 0]], seeds_to_learn(seed), budget=1500)

    every = [collected(seed) for seed in range(12)]
    returns = [counted_table(each, 16, 4)[0].policy_return(best, 100) for each in every]
    said = [data_error(each, best, 4, 100) for each in every[:4]]
    assert 0.5 < np.std(returns, ddof=1) / np.mean(said) < 2
    assert data_error(every[0], best, 4, 1) == 0  # the first step earns nothing in any of them


def test_the_parts_of_a_regret_add_up():
    true = true_table(make())
    counts, visits = counted_table(play(make, at_random(4, 1), seeds_to_learn(1), budget=500), 16, 4)
    found = regret(true, counts, visits, true, np.zeros(16, np.int64), discount=0.99, limit=100)
    assert sum(found.lost.values()) == pytest.approx(found.optimum - found.policy)
    assert found.lost["exploration"] >= 0
    assert found.by_model == pytest.approx(found.stationary)  # the model is the world itself
    assert found.imagined == pytest.approx(found.policy)
    assert 0 < found.visited <= found.pairs == 44
    perfect = true.value_iteration(0.99).argmax(-1)
    none = regret(true, true, np.ones((16, 4)), true, perfect, discount=0.99, limit=100)
    assert {name: lost for name, lost in none.lost.items() if abs(lost) > 1e-9}.keys() == {"time"}


def test_the_model_is_read_as_a_table():
    model = build_model(LAKE, seed=3).eval()
    table = learned_table(model, CPU)
    assert table.chances.sum(-1) == pytest.approx(np.ones((16, 4)), abs=1e-9)
    h = model(torch.tensor([[[6]]]), torch.tensor([[2]]))
    torch.testing.assert_close(
        torch.from_numpy(table.chances[6, 2]), model.reader.logits(h)[0, 0, 0].double().softmax(-1)
    )
    reward, end = model.rewarded(h[0, 0], torch.tensor([10]))
    assert table.rewards[6, 2, 10] == pytest.approx(reward.item(), abs=1e-6)
    assert table.ends[6, 2, 10] == pytest.approx(end.sigmoid().item(), abs=1e-6)
    with pytest.raises(ConfigError, match="value-iteration is for observations of one symbol"):
        plan(build_model(POLE), CPU, 0.9)


def test_the_actor_imitates_the_plan(tmp_path):
    rounds = Round(world=2, act=60)
    config, train = replace(PLANNED, collect=(120,), round=rounds), replace(TRAIN, steps=62, evaluate_every=62)
    made = trainer(tmp_path, config=config, train=train)
    made.train()
    planned = plan(made.model, CPU, config.discount)
    assert torch.equal(greedy(made.model.actor(planned.states)), planned.actions)
    found = policy_regret(made.model, made.task, CPU)
    assert found.lost["policy"] == pytest.approx(0)


def test_a_planned_run_resumes_to_the_bit(tmp_path):
    straight = trainer(tmp_path / "a", config=PLANNED)
    straight.train()
    first = trainer(tmp_path / "b", config=PLANNED)
    for _ in range(5):  # in the middle of the plan's phase
        first.advance()
    first.save()
    later = trainer(tmp_path / "b", config=PLANNED)
    assert later.resume()
    later.train()
    assert state_hash(later) == state_hash(straight)


def test_only_worlds_of_one_symbol_are_planned_in(tmp_path):
    with pytest.raises(ConfigError, match=r"task.learner=value-iteration, allowed for CartPole-v1: actor-critic"):
        prepared(PLANNED, DataConfig(spec="CartPole-v1"), POLE, folder=tmp_path, batch_tokens=48)


def test_a_share_of_the_actions_is_at_random():
    model = build_model(LAKE)
    with torch.no_grad():
        model.actor.out.bias[2] = 50.0  # always this one
    seen = np.zeros((4000, 1), np.int64)
    alone, mixed = exploring(model, CPU, 1)(seen), exploring(model, CPU, 1, share=0.4)(seen)
    assert (alone == 2).all()
    assert (mixed == 2).mean() == pytest.approx(0.6 + 0.4 / 4, abs=0.03)


@pytest.mark.parametrize(("model", "name"), [(LAKE, "FrozenLake-v1"), (POLE, "CartPole-v1")])
def test_the_report_tells_what_limits_any_world(model, name, tmp_path):
    made = trainer(tmp_path, model, name)
    made.train()
    found = report(made.model, made.task, "val", made.device, episodes=6, seed=0)
    values = found.to_json()
    assert values["imagined_less_real"] == pytest.approx(values["imagined_return"] - values["mean_return"])
    assert values["imagined_less_real_within"] >= 0
    assert values["limited_by"] in ("exploration", "model", "policy")  # after 14 steps it cannot be good
    assert found.by_step[-1].real == pytest.approx(found.real.mean)
    assert found.by_step[-1].imagined == pytest.approx(found.imagined.mean, rel=1e-5)
    assert ("regret" in values) == ("imagined_data_error" in values) == (name == "FrozenLake-v1")


def test_what_was_collected_is_familiar(tmp_path):
    made = trainer(tmp_path)
    made.advance()
    assert familiar(made.model, made.task, made.task.collected[0], CPU) == 1.0
    other = replace(made.task.collected[0], actions=made.task.collected[0].actions + 7)
    assert familiar(made.model, made.task, other, CPU) == 0.0
    assert task(tmp_path).taken == TASK.collect[0]
