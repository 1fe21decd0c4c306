from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

pytest.importorskip("gymnasium")

from headway.config import override
from headway.data.config import DataConfig
from headway.data.episodes import fresh_seeds
from headway.errors import ConfigError, DataError
from headway.models import DecisionConfig, build_model
from headway.models.observation import Numbers
from headway.tasks.decision_transformer import Deciding
from headway.tasks.decision_transformer.imitation import BestEpisodes
from headway.tasks.decision_transformer.play import Attempt, follow
from headway.tasks.training_task import IGNORED
from headway.training.trainer import Trainer
from tests import pipelines
from tests.training.small import Silent
from tests.worlds import TRAIN, trainer

MODEL = DecisionConfig(observation=Numbers(size=1), actions=2, context=4, width=16, layers=1, heads=2)
TASK = Deciding(log=300, targets=(10.0, 40.0))


def prepared(folder, spec="CartPole-v1", task=TASK):
    found = pipelines.prepared(task, DataConfig(spec=spec), MODEL, folder=folder, batch_tokens=96)
    return found.training, override(MODEL, found.model_overrides)


def test_the_log_is_made_once_and_kept(tmp_path):
    task, model = prepared(tmp_path)
    assert model.observation == Numbers(size=4)
    assert task.episodes.taken == 300
    again, _ = prepared(tmp_path)
    np.testing.assert_array_equal(task.episodes.observations, again.episodes.observations)
    assert len(set(task.episodes.returns.tolist())) > 3  # another policy each time


def test_a_batch_holds_what_was_still_to_come(tmp_path):
    task, _ = prepared(tmp_path)
    batch = task.batch(np.arange(len(task.splits["train"].windows)))
    to_go, states, actions = batch.inputs
    counted = batch.targets != IGNORED
    assert batch.count == int(counted.sum())
    assert (batch.targets[counted] == actions[counted]).all()
    both = counted[:, 1:]
    assert (to_go.diff(dim=1)[both] == -1).all()  # CartPole gives one a step
    assert states.shape == (*actions.shape, 4)


def test_it_trains_and_is_asked_for_returns(tmp_path):
    task, model = prepared(tmp_path)
    made = Trainer(build_model(model), task, replace(TRAIN, steps=6, evaluate_every=6), tmp_path, Silent())
    made.train()
    assert made.model.scale == pytest.approx(task.to_go["train"].max())
    made.model.eval()
    found = task.asked(made.model, made.device, episodes=3, seed=0)
    assert found.to_json() == task.asked(made.model, made.device, episodes=3, seed=0).to_json()
    values = found.to_json()
    assert {"return_asked_10", "return_asked_40", "rank_correlation", "mean_return"} <= set(values)
    assert values["return_asked_40_low"] <= values["return_asked_40"] <= values["return_asked_40_high"]
    assert values["mean_return"] == values["return_asked_40"]
    assert values["episodes"] == 3
    assert values["environment_steps"] == 300


def test_the_best_tenth_is_imitated_without_its_returns(tmp_path):
    every, _ = prepared(tmp_path)
    best, model = prepared(tmp_path, task=replace(TASK, imitate=BestEpisodes()))
    returns = every.splits["train"].episodes.returns
    count = round(0.1 * len(returns))
    kept = best.splits["train"].episodes
    assert sorted(kept.returns) == sorted(returns)[-count:]
    assert kept.steps == kept.returns.sum()  # CartPole gives one a step: whole episodes
    assert all(not to_go.any() for to_go in best.to_go.values())
    assert best.episodes.returns.tolist() == every.episodes.returns.tolist()  # the log itself is the same
    found = best.asked(build_model(model).eval(), torch.device("cpu"), episodes=2, seed=0)
    assert found.targets == ()
    assert {"return", "return_low", "mean_return"} <= set(found.to_json())
    assert np.isnan(found.to_json()["rank_correlation"])


@pytest.mark.parametrize("share", [0.0, -0.1, 1.5, float("nan")])
def test_a_share_of_no_episodes_is_refused(share):
    with pytest.raises(ConfigError, match=r"task\.imitate\.share=.*, allowed: above 0, up to 1"):
        BestEpisodes(share=share)


def test_what_is_asked_for_falls_by_each_reward_and_stays_where_nothing_is(tmp_path):
    task, _ = prepared(tmp_path)
    asked, unasked = (Attempt(task.make(), target, seed=1) for target in (40.0, None))
    for attempt in (asked, unasked):
        attempt.step(0)
        attempt.step(1)
    assert asked.window(0, 3).tolist() == [40, 39, 38]
    assert unasked.window(0, 3).tolist() == [0, 0, 0]


class Undecided(torch.nn.Module):
    """Action 1 is likelier by a little."""

    context = 4

    def forward(self, returns, states, actions):
        return torch.tensor([0.0, 0.1]).expand(*actions.shape, 2)


def test_without_temperature_the_likeliest_action_is_taken(tmp_path):
    task, _ = prepared(tmp_path)
    seeds = list(fresh_seeds(20, 0))
    how = {"target": 10.0, "seeds": seeds, "seed": 0}
    always = follow(Undecided(), task.make, torch.device("cpu"), temperature=0.0, **how)
    drawn = follow(Undecided(), task.make, torch.device("cpu"), temperature=1.0, **how)
    assert always.max() <= 11  # pushed one way, the pole falls at once
    assert drawn.mean() > 15
    with pytest.raises(ConfigError, match=r"task\.temperature=-1\.0, allowed: 0 and above"):
        Deciding(temperature=-1.0)


def test_the_episodes_of_a_world_run_are_a_log(tmp_path):
    world = trainer(tmp_path / "world")
    world.advance()
    task, model = prepared(tmp_path / "run", str(tmp_path / "world"))
    assert task.name == "FrozenLake-v1"
    assert task.episodes.taken == world.task.taken
    assert torch.isfinite(build_model(model)(*task.batch(np.arange(3)).inputs)).all()
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="no episodes there"):
        prepared(tmp_path / "run", str(tmp_path / "empty"))


def test_other_data_than_its_own_is_refused(tmp_path):
    data = DataConfig(spec="Acrobot-v1")
    asked = {"folder": tmp_path, "own_data": False, "own_spec": "CartPole-v1"}
    with pytest.raises(ConfigError, match=r"--data Acrobot-v1: .* can only use its own CartPole-v1"):
        pipelines.prepared(TASK, data, MODEL, **asked)
    assert not (tmp_path / "episodes").exists()


def test_one_target_is_nothing_to_rank():
    with pytest.raises(ConfigError, match="two or more"):
        Deciding(targets=(1.0,))


@pytest.mark.parametrize("given", ["nan", "inf", "-inf", "1e308"])
def test_a_page_asks_for_a_return_that_the_model_can_read(given):
    pipeline = pipelines.pipeline_of(TASK, torch.nn.Identity())
    with pytest.raises(DataError, match=rf"^'{given}': .* a number from -1e\+30 to 1e\+30$"):
        pipeline.explain(given)


def test_a_seed_below_zero_is_refused():
    with pytest.raises(ConfigError, match=r"^seed=-1, allowed: 0 and above$"):
        fresh_seeds(3, -1)
