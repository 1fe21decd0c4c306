"""Policies that read the model's features: what they know of the past, imagined and played."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

pytest.importorskip("gymnasium")

from headway.data.config import DataConfig
from headway.data.environments import Environment, Plain, Rendered
from headway.data.episodes import EpisodeSplit, History, at_random, play
from headway.data.t_maze import ARM, CELL, CORRIDOR, FORWARD, JUNCTION, LEFT, LEFT_SIGN, RIGHT_SIGN
from headway.errors import ConfigError
from headway.models import build_model
from headway.tasks.world_model.evaluation import imagined
from headway.tasks.world_model.imagination import Start, acting, greedy, imagine
from headway.tasks.world_model.learners import ValueIteration
from headway.tasks.world_model.policy import exploring, learned, remembered
from tests.pipelines import prepared
from tests.worlds import MAZE, TASK, task

CPU = torch.device("cpu")


def maze():
    return Environment("headway/TMaze-v0", Plain())


def histories(lengths):
    random = np.random.default_rng(0)
    return [History([*random.integers(5, size=(n + 1, 1))], random.integers(3, size=n).tolist()) for n in lengths]


@torch.no_grad()
def walked(model, history):
    """The features after a history, one cached step after another."""
    cache, h = model.start(len(history.actions)), torch.zeros(1, 1, model.width)
    for t, action in enumerate(history.actions):
        state = torch.from_numpy(history.observations[t]).view(1, 1, -1)
        h, cache = model.extend(state, torch.tensor([[action]]), cache, torch.tensor([[t]]))
    return h[0, 0]


def test_the_sign_names_the_arm_and_is_seen_once():
    signs = set()
    for seed in range(6):
        for obeys in (True, False):
            world = maze()
            sign = int(world.reset(seed)[0])
            signs.add(sign)
            assert int(world.step(LEFT)[0][0]) == sign  # a turn in the corridor changes nothing
            seen = [int(world.step(FORWARD)[0][0]) for _ in range(CORRIDOR)]
            assert seen == [CELL] * (CORRIDOR - 1) + [JUNCTION]
            assert world.step(FORWARD)[1:] == (0.0, False, False)
            arm = sign if obeys else 1 - sign
            after, reward, ended, _ = world.step(arm)
            assert (int(after[0]), reward, ended) == (ARM, float(obeys), True)
    assert signs == {LEFT_SIGN, RIGHT_SIGN}


def test_features_of_an_episode_are_those_of_cached_steps():
    model = build_model(MAZE).eval()
    given = histories([0, 1, 4, 12, model.reach + 3])
    found = remembered(model, given, CPU)
    assert not found[0].any()
    for each, h in zip(given, found, strict=True):
        torch.testing.assert_close(h, walked(model, each), atol=1e-5, rtol=1e-4)
    assert torch.equal(remembered(model, given[:1], CPU), torch.zeros(1, model.width))


def test_imagined_steps_keep_the_features_of_the_step_before():
    model = build_model(MAZE).eval()
    states, actions = torch.randint(5, (3, 4, 1)), torch.randint(3, (3, 3))
    start = Start(states, actions, torch.arange(4).expand(3, -1))
    found = imagine(model, start, 4, acting(model, greedy))
    assert found.memory.shape == (5, 3, model.width)
    seen = torch.cat([states[:, :-1], found.states.transpose(0, 1)], 1)
    done = torch.cat([actions, found.actions.T], 1)
    with torch.no_grad():
        h = model(seen[:, :-1], done, torch.arange(7).expand(3, -1))
    torch.testing.assert_close(found.memory.transpose(0, 1), h[:, 2:], atol=1e-5, rtol=1e-4)
    first = Start(states[:, :1], actions[:, :0], torch.zeros(3, 1, dtype=torch.long))
    blank = imagine(model, first, 1, acting(model, greedy))
    assert not blank.memory[0].any()


def test_a_picture_of_the_maze_shows_what_is_observed_and_no_more():
    seen: dict[int, set[bytes]] = {}
    for seed in range(6):
        symbols, pictures = maze(), Environment("headway/TMaze-v0", Rendered(size=24))
        now, shown = symbols.reset(seed), pictures.reset(seed)
        for action in (LEFT, *[FORWARD] * CORRIDOR, seed % 2, None):
            seen.setdefault(int(now[0]), set()).add(shown.tobytes())
            if action is not None:
                (now, *same), (shown, *others) = symbols.step(action), pictures.step(action)
                assert same == others
    assert shown.shape == (3, 24, 24)
    assert sorted(seen) == [LEFT_SIGN, RIGHT_SIGN, CELL, JUNCTION, ARM]
    assert all(len(each) == 1 for each in seen.values())
    assert len(set.union(*seen.values())) == 5


def test_a_policy_with_a_memory_acts_on_what_is_gone():
    torch.manual_seed(0)
    model = build_model(MAZE).eval()
    torch.nn.init.normal_(model.actor.out.weight, std=5)
    other = [np.asarray([RIGHT_SIGN]), *[np.asarray([CELL])] * 2]
    one = [np.asarray([LEFT_SIGN]), *other[1:]]
    first, second = (exploring(model, CPU, 3).act([History(seen, [2, 2])] * 200) for seen in (one, other))
    assert (first != second).any()
    played = play(maze, learned(model, CPU), iter(range(4)))
    assert imagined(model, played, CPU, 5).memory is not None
    assert len(played) == 4


def test_rollouts_of_such_a_policy_begin_with_the_whole_past(tmp_path):
    made = task(tmp_path, "headway/TMaze-v0", TASK, whole_past=True)
    episodes = play(maze, at_random(3, 0), iter(range(12)))
    made.splits = {"train": EpisodeSplit.of(episodes, 4)}
    every = np.arange(len(made.splits["train"].rows))
    assert TASK.context == 1
    begin = made.starts("train", every, 0)
    assert (begin.ages == 0).all()
    longest = made.starts("train", every, 1).ages  # beyond it, the past is cut
    assert longest.shape[1] == 2
    assert longest[:, -1].max() > 1


def test_a_plan_has_no_memory(tmp_path):
    config = replace(TASK, learner=ValueIteration())
    with pytest.raises(ConfigError, match=r"actor_reads=features, allowed with task.learner=value-iteration: obs"):
        prepared(config, DataConfig(spec="headway/TMaze-v0"), MAZE, folder=tmp_path, batch_tokens=48)
