"""Posterior sampling: explore by what is best in a world that the collected steps leave possible (Osband 2013)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from headway.data.environments import Observation
from headway.data.episodes import Episodes, Policy
from headway.tasks.world_model.planning import Floats, MarkovTable, counted_table
from headway.tasks.world_model.policy import Actions


def by_posterior(
    table: MarkovTable, episodes: Episodes, *stream: int, discount: float, every: int, share: float = 0.0
) -> Policy:
    """The best policy of a drawn table, another one `every` so many steps; a share of the actions is random.

    The learned table says what follows an action, and the visits in `episodes` how sure that is. So an action is tried
    where it may still turn out to be the best, and not where it cannot.
    """
    random = np.random.default_rng(stream)
    states, actions = table.gains.shape
    visits = counted_table(episodes, states, actions)[1]
    steps, best = 0, np.zeros(states, np.int64)

    def act(observations: Observation) -> Actions:
        nonlocal steps, best
        if steps % every == 0:
            drawn = replace(table, chances=drawn_chances(table.chances, visits, random))
            best = np.asarray(drawn.value_iteration(discount).argmax(-1), np.int64)
        steps += 1
        anything = random.integers(actions, size=len(observations))
        return np.where(random.random(len(observations)) < share, anything, best[observations[:, 0]])

    return act


def drawn_chances(chances: Floats, visits: Floats, random: np.random.Generator) -> Floats:
    """Chances (S, A, S) drawn from a Dirichlet distribution with these means and visits (S, A) as its concentration.

    Where there are no visits the chances stay as they are.
    """
    parts = random.standard_gamma(chances * visits[..., None])
    total = parts.sum(-1, keepdims=True)
    return np.asarray(np.where(total > 0, parts / np.where(total > 0, total, 1.0), chances), np.float64)
