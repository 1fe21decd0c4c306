"""A world model's rounds: what is touched when, and that runs repeat."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

pytest.importorskip("gymnasium")

import headway
from headway.config import override
from headway.data.config import DataConfig
from headway.data.environments import Environment, Rendered
from headway.data.episodes import EpisodeSplit
from headway.errors import ConfigError, DataError
from headway.models.observation import CodeReader, Codes
from headway.reliability.runs import TINY
from headway.runs.train import train_run
from headway.storage.commit import discard
from headway.tasks.world_model.evaluation import open_loop, report
from headway.tasks.world_model.learners import ProximalPolicy, ValueIteration
from headway.tasks.world_model.schedule import Round
from tests.pipelines import prepared
from tests.training.small import Silent, state_hash
from tests.worlds import LAKE, MAZE, POLE, TASK, TRAIN, task, trainer

PROXIMAL = replace(TASK, learner=ProximalPolicy(reuse=2, rows=16))
ANEW = replace(PROXIMAL, restart_policy=True)
TRIED = replace(PROXIMAL, final_policy="tried")
WORLDS = {
    "lake": (LAKE, "FrozenLake-v1", TASK),
    "pole": (POLE, "CartPole-v1", TRIED),  # a checkpoint after 5 steps is amid rollouts that are learned from twice
    "maze": (MAZE, "headway/TMaze-v0", ANEW),
    "maze from pixels": (
        replace(MAZE, observation=Codes(image=24, patch=8, levels=4, inner=8)),
        "headway/TMaze-v0",
        replace(ANEW, view=Rendered(size=24), round=Round(code=1, world=3, act=3)),
    ),
    "lake by posterior": (
        LAKE,
        "FrozenLake-v1",
        replace(TASK, learner=ValueIteration(posterior=5), explore=0.2),
    ),
}


def test_the_environment_is_not_touched_while_the_policy_learns(tmp_path, monkeypatch):
    touched = []
    for name in ("step", "reset"):
        real = getattr(Environment, name)
        monkeypatch.setattr(Environment, name, lambda *args, real=real: touched.append(1) or real(*args))
    made = trainer(tmp_path)
    by_step = []
    for _ in range(14):
        before = len(touched)
        entry = made.advance()
        by_step.append((entry["phase"], len(touched) > before))
    a_round = [("world", True)] + [("world", False)] * 3 + [("act", False)] * 3
    assert by_step == a_round * 2
    assert made.task.taken == sum(TASK.collect)


@pytest.mark.parametrize("name", WORLDS)
def test_runs_repeat_and_resume_to_the_bit(name, tmp_path):
    model, environment, config = WORLDS[name]
    straight = trainer(tmp_path / "a", model, environment, config)
    straight.train()
    again = trainer(tmp_path / "b", model, environment, config)
    again.train()
    assert state_hash(straight) == state_hash(again)
    for stop in (2, 5, 7, 9):
        first = trainer(tmp_path / f"c{stop}", model, environment, config)
        for _ in range(stop):
            first.advance()
            if first.step == 7:
                first._evaluate()
        first.save()
        for _ in range(3):  # what was done after the checkpoint is lost, save for the episodes of a round
            first.advance()
        later = trainer(tmp_path / f"c{stop}", model, environment, config)
        assert later.resume()
        later.train()
        assert state_hash(later) == state_hash(straight), stop
    assert state_hash(trainer(tmp_path / "d", model, environment, config, seed=1)) != state_hash(straight)


def test_pictures_are_read_once_while_their_code_does_not_change(tmp_path, monkeypatch):
    model, environment, config = WORLDS["maze from pixels"]
    read = []
    patches = CodeReader._patches
    monkeypatch.setattr(CodeReader, "_patches", lambda self, seen: read.append(len(seen)) or patches(self, seen))
    made = trainer(tmp_path, model, environment, config)
    by_step = []
    for _ in range(7):
        read.clear()
        entry = made.advance()
        by_step.append((entry["phase"], sum(read)))
    pictures = sum(len(part.episodes.actions) for part in made.task.splits.values())
    assert [name for name, _ in by_step] == ["code", *["world"] * 3, *["act"] * 3]
    assert [count for _, count in by_step[1:]] == [pictures, 0, 0, 0, 0, 0]
    fresh = made.model.reader.state(torch.from_numpy(made.task.splits["val"].episodes.observations))
    assert torch.equal(fresh, torch.from_numpy(made.task.encoded["val"]))


def test_a_policy_that_begins_anew_has_no_habits(tmp_path):
    """Found on MiniGrid: a policy that turned left only in the first round's model never turned right again."""
    made = trainer(tmp_path, config=replace(ANEW, round=Round(world=2, act=1)))
    for _ in range(3):
        made.advance()
    with torch.no_grad():
        made.model.actor.out.bias[1] = 50.0
    for _ in range(2):  # the model learns, the policy that collected is still there
        made.advance()
    assert made.model.actor.out.bias[1] > 40
    made.advance()
    assert made.model.actor.out.bias.abs().max() < 1


def test_rounds_that_are_yet_to_come_are_not_learned_from(tmp_path):
    done = trainer(tmp_path)
    for _ in range(14):
        done.advance()
    fresh = trainer(tmp_path)  # no checkpoint, but both rounds lie there
    fresh.advance()
    assert fresh.task.taken == TASK.collect[0]


def test_episodes_that_are_gone_are_missed(tmp_path):
    made = trainer(tmp_path)
    for _ in range(3):
        made.advance()
    made.save()
    discard(tmp_path / "episodes" / "round-000")
    again = trainer(tmp_path)
    again.resume()
    with pytest.raises(DataError, match=r"round-000: the episodes of this round are missing"):
        again.advance()


def test_a_reader_misses_the_episodes_of_a_later_round(tmp_path):
    """Found by `headway reliability`: a run without its second round was evaluated on the first alone."""
    made = tmp_path / "run"
    train_run(TINY["world"].config(tmp_path / "cache"), made, Silent())
    assert headway.load(made, device="cpu").evaluate().values["loss"] > 0
    discard(made / "episodes" / "round-001")
    with pytest.raises(DataError, match=r"round-001: the episodes of this round are missing; copy them back"):
        headway.load(made, device="cpu").evaluate()


def test_windows_end_where_their_episode_does(tmp_path):
    made = trainer(tmp_path)
    made.advance()
    part = made.task.splits["train"]
    batch = made.task.windows("train", np.arange(len(part.windows)))
    seen, actions, ages, counted = (each.numpy() for each in batch.inputs)
    for row in range(0, len(part.windows), 7):
        begin, length = part.windows.begins[row], part.windows.lengths[row]
        np.testing.assert_array_equal(seen[row, : length + 1], part.episodes.observations[begin : begin + length + 1])
        np.testing.assert_array_equal(actions[row, :length], part.episodes.actions[begin : begin + length])
        assert counted[row].sum() == length
        assert ages[row, 0] == part.ages[begin]
    assert (batch.targets.numpy()[..., 1] * counted).sum() > 0


def test_imagined_rollouts_begin_at_steps_with_enough_before_them(tmp_path):
    made = trainer(tmp_path)
    made.advance()
    start = made.task.starts("train", np.arange(50), 2)
    assert start.states.shape[1:] == (3, 1)
    assert (start.ages.diff(dim=1) == 1).all()
    assert not set(start.states[:, -1, 0].tolist()) & {5, 7, 11, 12, 15}  # holes and the goal: nothing goes on there


def test_a_run_that_ran_out_of_time_has_no_end(tmp_path):
    config = replace(TASK, collect=(1700,), round=Round(world=1, act=1))
    car = replace(POLE, observation=replace(POLE.observation, size=2), actions=3)
    made = trainer(tmp_path, car, "MountainCar-v0", config)
    made.advance()
    episodes = made.task.collected[0]
    assert 200 in episodes.lengths.tolist()
    assert not episodes.ends.any()


def test_what_a_world_model_is_worth(tmp_path):
    made = trainer(tmp_path)
    made.train()
    found = report(made.model, made.task, "val", made.device, episodes=5, seed=0).to_json()
    assert found["environment_steps"] == sum(TASK.collect)
    assert found["episodes"] == 5
    assert 0 <= found["table_distance"] <= 1
    assert 0 <= found["end_calibration_error"] <= 1
    first = open_loop(made.model, made.task, "val", made.device)
    assert [each.k for each in first] == list(range(1, len(first) + 1))
    assert first == open_loop(made.model, made.task, "val", made.device)


def test_pictures_are_learned_as_codes(tmp_path):
    pytest.importorskip("minigrid")
    view, rounds = Rendered(size=16), Round(code=3, world=2, act=1)
    config = replace(TASK, view=view, collect=(40,), round=rounds)
    data = DataConfig(spec="MiniGrid-Empty-5x5-v0")
    found = prepared(config, data, LAKE, folder=tmp_path, batch_tokens=48)
    made, model = found.training, override(LAKE, found.model_overrides)
    assert model.observation == Codes(image=16)
    run = trainer(tmp_path, model, made.name, config, replace(TRAIN, steps=6, evaluate_every=6))
    run.train()
    found = open_loop(run.model, run.task, "val", run.device)
    assert all(0 <= each.error <= 1 for each in found)
    with pytest.raises(ConfigError, match=r"task.round.code=0, allowed for .*: from 1"):
        prepared(replace(config, round=Round()), data, LAKE, folder=tmp_path, batch_tokens=48)


def test_the_held_out_episodes_are_not_learned_from(tmp_path):
    made = task(tmp_path)
    model = trainer(tmp_path).model
    made.phase(model, 0, torch.device("cpu"))
    every = made.collected[0]
    train, val = made.splits["train"], made.splits["val"]
    assert isinstance(train, EpisodeSplit)
    assert len(train.episodes) + len(val.episodes) == len(every)
    assert train.episodes.steps + val.episodes.steps == every.steps
