"""Collecting by posterior sampling: tables drawn around the learned one, as far as the visits leave them open."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("gymnasium")

from headway.data.episodes import Episodes
from headway.tasks.world_model.planning import MarkovTable
from headway.tasks.world_model.posterior import by_posterior, drawn_chances


def test_drawn_chances_have_the_moments_of_a_dirichlet_distribution():
    chances = np.asarray([[[0.2, 0.5, 0.3, 0.0]]])
    drawn = np.stack([drawn_chances(chances, np.asarray([[9.0]]), np.random.default_rng(n)) for n in range(4000)])
    assert drawn.sum(-1) == pytest.approx(1.0)
    assert drawn.mean(0) == pytest.approx(chances, abs=0.01)
    assert drawn.var(0) == pytest.approx(chances * (1 - chances) / (9 + 1), abs=0.002)


def test_what_was_never_visited_stays_as_it_was_learned():
    chances = np.asarray([[[0.25, 0.75], [1.0, 0.0]]])
    found = drawn_chances(chances, np.asarray([[0.0, 3.0]]), np.random.default_rng(0))
    assert found.tolist() == chances.tolist()


def two_arms(visits: tuple[int, int]) -> tuple[MarkovTable, Episodes]:
    """State 0 with two actions: each leads to 1, with a reward of 1, in half of the cases, else to 2; both end."""
    chances, rewards = np.zeros((3, 2, 3)), np.zeros((3, 2, 3))
    chances[0, :, 1:], rewards[0, :, 1] = 0.5, 1.0
    chances[1:, :, 2] = 1.0
    ends = np.ones((3, 2, 3))
    done = np.repeat([0, 1], visits)
    count = len(done)
    seen = np.stack([np.zeros(count), 1 + np.arange(count) % 2], 1).reshape(-1, 1).astype(np.int64)
    actions = np.stack([done, 0 * done], 1).reshape(-1)
    over = np.tile([True, False], count)
    episodes = Episodes(
        seen, actions, np.zeros(2 * count, np.float32), over, np.arange(0, 2 * count + 1, 2), taken=count
    )
    return MarkovTable(chances, rewards, ends, np.asarray([1.0, 0.0, 0.0])), episodes


def chosen(policy, calls: int) -> np.ndarray:
    return np.stack([policy(np.zeros((4, 1), np.int64)) for _ in range(calls)])


def test_one_table_decides_for_as_many_steps_as_it_is_given():
    table, episodes = two_arms((10, 10))
    done = chosen(by_posterior(table, episodes, 0, 1, discount=0.9, every=25), 500)
    assert (done == done[:, :1]).all()  # in all environments alike
    spells = done[:, 0].reshape(20, 25)
    assert (spells == spells[:, :1]).all()
    assert 3 <= spells[:, 0].sum() <= 17  # either arm may be the better one
    again = chosen(by_posterior(table, episodes, 0, 1, discount=0.9, every=25), 500)
    assert (done == again).all()


def test_an_action_that_cannot_be_the_best_is_left_alone_but_for_chance():
    table, episodes = two_arms((400, 400))
    table.chances[0, 1] = [0.0, 0.8, 0.2]
    assert (chosen(by_posterior(table, episodes, 0, discount=0.9, every=1), 200) == 1).all()
    some = chosen(by_posterior(table, episodes, 0, discount=0.9, every=1, share=0.5), 500)
    assert (some == 0).mean() == pytest.approx(0.25, abs=0.04)
