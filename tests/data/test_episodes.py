from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

pytest.importorskip("gymnasium")

from headway.data.environments import Environment, Plain
from headway.data.episodes import (
    HALF,
    TENSORS,
    Episodes,
    EpisodeWindows,
    at_random,
    concatenate,
    fresh_seeds,
    play,
    read_episodes,
    seeds_to_learn,
    write_episodes,
)
from headway.errors import DataError
from tests.worlds import Odd

LAKE = partial(Environment, "FrozenLake-v1", Plain())


def lake(steps: int = 90, seed: int = 0):
    return play(LAKE, at_random(4, seed), seeds_to_learn(seed), budget=steps)


def test_a_budget_is_used_to_the_step_and_episodes_join_end_to_end():
    found = lake(90)
    assert found.taken == found.steps == 90
    both = concatenate([found, lake(40, 1)])
    assert (both.taken, both.steps, len(both)) == (130, 130, len(found) + len(lake(40, 1)))
    assert both.lengths.sum() == 130
    assert (both.ends.nonzero()[0] + 2 <= len(both.ends)).all()
    np.testing.assert_array_equal(both.pick(np.arange(len(found))).observations, found.observations)


def test_the_same_seeds_give_the_same_episodes():
    one, two, other = lake(), lake(), lake(seed=1)
    np.testing.assert_array_equal(one.observations, two.observations)
    assert one.actions.tolist() != other.actions.tolist()


def test_fresh_seeds_are_never_learned_with():
    learned = seeds_to_learn(0, 1)
    assert max(next(learned) for _ in range(100)) < HALF <= min(fresh_seeds(100, 0))
    assert list(fresh_seeds(5, 0)) == list(fresh_seeds(9, 0))[:5]


@pytest.mark.parametrize("wrong", ["raise", "nan", "reward"])
def test_an_episode_that_breaks_is_dropped_and_counted(wrong, monkeypatch):
    monkeypatch.setattr(Odd, "wrong", wrong)
    monkeypatch.setattr(Odd, "episodes", 0)
    found = play(partial(Environment, "Odd-v0", Plain()), at_random(2, 0), iter(range(9)))
    assert (len(found), found.dropped) == (6, 3)
    assert found.taken == 6 * 10 + 3 * 3
    assert np.isfinite(found.observations).all()
    assert found.returns.tolist() == [10.0] * 6


def test_an_environment_that_always_breaks_is_an_error(monkeypatch):
    monkeypatch.setattr(Odd, "step", lambda self, action: 1 / 0)
    with pytest.raises(DataError, match="ZeroDivisionError"):
        play(partial(Environment, "Odd-v0", Plain()), at_random(2, 0), iter(range(5)))


def test_episodes_are_kept_and_damage_is_noticed(tmp_path):
    found = lake()
    write_episodes(tmp_path / "a", found, {"environment": "FrozenLake-v1"})
    again = read_episodes(tmp_path / "a")
    for name in ("observations", "actions", "rewards", "ends", "starts"):
        np.testing.assert_array_equal(getattr(again, name), getattr(found, name))
    path = tmp_path / "a" / TENSORS
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    with pytest.raises(DataError, match="is damaged"):
        read_episodes(tmp_path / "a")


def test_every_step_is_in_as_many_windows_as_any_other():
    found = lake()
    windows = EpisodeWindows.of(found, 4)
    counts = np.zeros(len(found.actions), int)
    for begin, length in zip(windows.begins, windows.lengths, strict=True):
        counts[begin : begin + length] += 1
    counts[found.starts[1:] - 1] += 4  # the last row of an episode holds no step
    assert set(counts.tolist()) == {4}


def test_returns_to_go():
    found = lake()
    assert np.allclose(found.returns_to_go()[found.starts[:-1]], found.returns)
    assert (found.returns_to_go()[found.starts[1:] - 1] == 0).all()


@pytest.mark.parametrize(
    ("changes", "wrong"),
    [
        ({"rewards": np.array([1.0, np.nan, 0.0, 0.0], np.float32)}, "rewards: row 2 holds NaN or infinity"),
        ({"observations": np.full((4, 2), np.inf, np.float32)}, "observations: row 1 holds NaN or infinity"),
        ({"actions": np.array([0, -5, 0, 0])}, "actions: row 2 is -5, expected 0 or more"),
        ({"actions": np.zeros(3, np.int64)}, "columns of different lengths"),
        ({"actions": np.zeros((4, 1), np.int64)}, r"actions is int64 of shape \(4, 1\), expected a row of int64"),
        ({"rewards": np.zeros(4)}, "rewards is float64 of shape"),
        ({"starts": np.array([0, 2, 9])}, "starts of episodes do not divide 4 rows"),
        ({"starts": np.array([0, 3, 2, 4])}, "starts of episodes do not divide 4 rows"),
        ({"starts": np.zeros(1, np.int64)}, "starts of episodes do not divide 4 rows"),
        ({"observations": np.float32(1)}, "columns of different lengths"),
    ],
)
def test_episodes_that_make_no_sense_are_refused(tmp_path, changes, wrong):
    """A manifest only says that a folder is as it was written; who wrote it may be anyone."""
    sound = Episodes(
        np.zeros((4, 2), np.float32), np.zeros(4, np.int64), np.zeros(4, np.float32), np.zeros(4, np.bool_),
        np.array([0, 2, 4]), 2,
    )  # fmt: skip
    write_episodes(tmp_path / "sound", sound, {})
    assert len(read_episodes(tmp_path / "sound")) == 2
    write_episodes(tmp_path / "odd", replace(sound, **changes), {})
    with pytest.raises(DataError, match=rf"episodes\.safetensors: {wrong}"):
        read_episodes(tmp_path / "odd")
