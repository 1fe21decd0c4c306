from __future__ import annotations

import sys

import numpy as np
import pytest

pytest.importorskip("gymnasium")

from headway.data.environments import Environment, Grid, ImageObservation, Plain, Rendered, Symbols, Vector
from headway.errors import ConfigError


def test_an_unknown_environment_names_the_nearest():
    with pytest.raises(ConfigError, match=r"no environment 'CartPole-v2': did you mean CartPole-v1"):
        Environment("CartPole-v2", Plain())


def test_a_missing_extra_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    with pytest.raises(ConfigError, match=r"^a world model needs gymnasium.*: .*pip install .*(world|gymnasium)"):
        Environment("CartPole-v1", Plain())


@pytest.mark.parametrize(
    ("name", "view", "said"),
    [
        ("Pendulum-v1", Plain(), r"action space Box.*allowed: Discrete"),
        ("Blackjack-v1", Plain(), r"observation space Tuple.*allowed: Discrete, MultiDiscrete, Box"),
        ("MiniGrid-Empty-5x5-v0", Grid(part="sound"), r"task.view.part='sound', .* has direction, image, mission"),
    ],
)
def test_a_space_that_nothing_reads_is_named(name, view, said):
    if "MiniGrid" in name:
        pytest.importorskip("minigrid")
    with pytest.raises(ConfigError, match=said):
        Environment(name, view)


def test_spaces_are_read_as_what_they_are():
    lake, pole = Environment("FrozenLake-v1", Plain()), Environment("CartPole-v1", Plain())
    assert (lake.shape, lake.actions, lake.limit) == (Symbols(parts=1, levels=16), 4, 100)
    assert (pole.shape, pole.actions, pole.limit) == (Vector(size=4), 2, 500)
    assert lake.reset(0).tolist() == [0]
    np.testing.assert_array_equal(pole.reset(3), pole.reset(3))


def test_minigrid_is_a_table_or_a_picture():
    pytest.importorskip("minigrid")
    table = Environment("MiniGrid-Empty-5x5-v0", Grid())
    assert table.shape == Symbols(parts=147, levels=11)
    assert table.reset(0).max() == 8  # the goal is in sight
    seen = Environment("MiniGrid-Empty-5x5-v0", Rendered(size=40))
    assert seen.shape == ImageObservation(size=40)
    frame = seen.reset(0)
    assert frame.shape == (3, 40, 40)
    assert (frame != seen.step(1)[0]).any()


def test_running_out_of_time_is_no_end():
    pole = Environment("MountainCar-v0", Plain())  # nothing but its limit of 200 steps stops it
    pole.reset(0)
    *_, (_, _, ended, cut) = [pole.step(1) for _ in range(200)]
    assert cut
    assert not ended
    assert pole.taken == 200
