"""Worlds of finitely many states as tables: value iteration, the exact return of a policy, and what a policy loses."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from headway.data.environments import Environment
from headway.data.episodes import Episodes
from headway.errors import ConfigError
from headway.metrics.world import Regret
from headway.models.observation import TokenReader
from headway.models.world import World

Floats = NDArray[np.float64]
SWEEPS = 10_000  # of value iteration, at most
SETTLED = 1e-10  # the change of a value from which on value iteration stops
RESAMPLED = 200  # bootstrap samples of the collected episodes


@dataclass(frozen=True, slots=True)
class MarkovTable:
    """A Markov decision process of S states and A actions: the arrays are (S, A, S), a state by an action by the next.

    Rewards and ends are those expected if that next state follows.
    """

    chances: Floats  # P(next | state, action); rows sum to 1
    rewards: Floats  # of the step
    ends: Floats  # the probability that the episode terminates with the step
    starts: Floats  # (S,) of the first state of an episode

    @property
    def gains(self) -> Floats:
        """The expected reward of an action in a state (S, A)."""
        return np.asarray((self.chances * self.rewards).sum(-1))

    @property
    def goes_on(self) -> Floats:
        """The probability that a next state follows and the episode goes on from there (S, A, S)."""
        return self.chances * (1 - self.ends)

    def action_values(self, values: Floats, discount: float = 1.0) -> Floats:
        """Values of the next states (S,) -> values of actions (S, A)."""
        return self.gains + discount * (self.goes_on @ values)

    def value_iteration(self, discount: float) -> Floats:
        """The optimal values of actions (S, A) without a time limit (Sutton and Barto 2018, section 4.4)."""
        gains, ahead = self.gains, discount * self.goes_on
        values = np.zeros(len(gains))
        found = gains
        for _ in range(SWEEPS):
            found = gains + ahead @ values
            better = found.max(-1)
            moved = float(np.abs(better - values).max())
            values = better
            if moved < SETTLED:
                break
        return np.asarray(found)

    def optimum(self, limit: int) -> float:
        """The highest possible expected return within `limit` steps; the policy may depend on the steps left."""
        values = np.zeros(len(self.starts))
        for _ in range(limit):
            values = self.action_values(values).max(-1)
        return float(self.starts @ values)

    def policy_return(self, policy: NDArray[np.int64], limit: int) -> float:
        """The expected return of a policy, an action for each state (S,), within `limit` steps."""
        rows = np.arange(len(self.starts))
        values = np.zeros(len(self.starts))
        for _ in range(limit):
            values = self.action_values(values)[rows, policy]
        return float(self.starts @ values)

    def reachable(self) -> NDArray[np.bool_]:
        """The states (S,) in which an action may have to be chosen: those that follow a start before an end."""
        found = self.starts > 0
        step = np.asarray((self.goes_on > 0).any(1))
        for _ in range(len(found)):
            found = found | step[found].any(0)
        return np.asarray(found, bool)


def true_table(environment: Environment) -> MarkovTable | None:
    """The table that gymnasium's toy worlds keep as `P` and `initial_state_distrib`; None if there is none."""
    world = environment.env.unwrapped
    chances, starts = getattr(world, "P", None), getattr(world, "initial_state_distrib", None)
    if not isinstance(chances, dict) or starts is None:
        return None
    shape = (len(chances), environment.actions, len(chances))
    table, rewards, ends = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    for state, actions in chances.items():
        for action, outcomes in actions.items():
            for chance, after, reward, end in outcomes:
                at = (state, action, after)
                table[at] += chance
                rewards[at] += chance * reward
                ends[at] += chance * float(end)
    share = np.where(table > 0, table, 1.0)
    return MarkovTable(table, rewards / share, ends / share, np.asarray(starts, np.float64))


def counted_table(
    episodes: Episodes, states: int, actions: int, times: Floats | None = None
) -> tuple[MarkovTable, Floats]:
    """The table of relative frequencies in episodes of one symbol a state, and the visits (S, A).

    `times` (E,) counts each episode so often, instead of once. An action that was never taken in a state leads
    nowhere: it ends the episode without a reward.
    """
    rows = np.flatnonzero(~last_rows(episodes))
    shape = (states, actions, states)
    at = np.ravel_multi_index(
        (episodes.observations[rows, 0], episodes.actions[rows], episodes.observations[rows + 1, 0]), shape
    )
    weights = np.ones(len(episodes)) if times is None else times
    each = np.repeat(weights, episodes.lengths)

    def summed(values: Floats) -> Floats:
        return np.asarray(np.bincount(at, values, minlength=states * actions * states), np.float64).reshape(shape)

    counts = summed(each)
    rewards, ends = summed(each * episodes.rewards[rows]), summed(each * episodes.ends[rows])
    visits = counts.sum(-1)
    chances = counts / np.maximum(visits, 1)[..., None]
    first = episodes.observations[episodes.starts[:-1], 0]
    starts = np.bincount(first, weights, minlength=states) / weights.sum()
    share = np.maximum(counts, 1)
    return MarkovTable(chances, rewards / share, ends / share, starts), visits


def data_error(episodes: Episodes, policy: NDArray[np.int64], actions: int, limit: int) -> float:
    """The standard error that finite data leave in a policy's return (S,), as a table learned from them gives it.

    It is that of the table of relative frequencies, over bootstrap samples of the episodes: no model of these episodes
    can be expected to come nearer to the world.
    """
    random = np.random.default_rng(0)
    found = [
        counted_table(episodes, len(policy), actions, each.astype(np.float64))[0].policy_return(policy, limit)
        for each in random.multinomial(len(episodes), np.full(len(episodes), 1 / len(episodes)), size=RESAMPLED)
    ]
    return float(np.std(found, ddof=1))


def last_rows(episodes: Episodes) -> NDArray[np.bool_]:
    """Which rows (N,) are the last of their episode: they have an observation and no action."""
    found = np.zeros(len(episodes.actions), bool)
    found[episodes.starts[1:] - 1] = True
    return found


def is_tabular(model: World) -> bool:
    """Whether a state is one symbol, so that all of them can be listed."""
    return isinstance(model.reader, TokenReader) and model.reader.parts == 1 and model.codes is None


@torch.no_grad()
def learned_table(model: World, device: torch.device, starts: Floats | None = None) -> MarkovTable:
    """What the model predicts of every action in every state, without past steps, as it is sampled in rollouts.

    Raises ConfigError for a model whose states are not one symbol each.
    """
    if not is_tabular(model):
        raise ConfigError(
            "task.learner=value-iteration is for observations of one symbol, such as FrozenLake's; "
            "allowed for others: actor-critic"
        )
    assert isinstance(model.reader, TokenReader)
    states, actions = model.reader.levels, model.actions
    before = torch.arange(states, device=device).repeat_interleave(actions).view(-1, 1, 1)
    h = model(before, torch.arange(actions, device=device).repeat(states).view(-1, 1))[:, 0]
    chances = model.reader.chances(model.reader.logits(h)[:, 0].double())
    after = torch.arange(states, device=device).view(1, -1, 1).expand(len(h), -1, -1)
    rewards, ends = model.rewarded(h.unsqueeze(1).expand(-1, states, -1), after)
    shape = (states, actions, states)
    said, given, over = (x.double().view(shape).cpu().numpy() for x in (chances, rewards, ends.sigmoid()))
    return MarkovTable(said, given, over, np.full(states, 1 / states) if starts is None else starts)


@dataclass(frozen=True, slots=True)
class Plan:
    """The optimal policy of a learned table, for an actor and a critic to imitate."""

    states: Tensor  # (S, 1)
    actions: Tensor  # (S,) the best one
    values: Tensor  # (S,) in units of the world's returns


def plan(model: World, device: torch.device, discount: float) -> Plan:
    """Value iteration in the learned table. Raises ConfigError for a model whose states are not one symbol each."""
    found = learned_table(model, device).value_iteration(discount)
    states = torch.arange(len(found), device=device).unsqueeze(-1)
    actions, values = torch.from_numpy(found.argmax(-1)).to(device), torch.from_numpy(found.max(-1)).float().to(device)
    return Plan(states, actions, values / model.scale)


def imitate(model: World, planned: Plan) -> tuple[Tensor, Tensor]:
    """What actor and critic minimise: -log p of planned actions, and the squared error of planned values, summed."""
    read = model.reader.normal(planned.states)
    policy = F.cross_entropy(model.actor(read), planned.actions, reduction="sum")
    return policy, 0.5 * (model.critic(read).squeeze(-1) - planned.values).square().sum()


def regret(
    true: MarkovTable, counts: MarkovTable, visits: Floats, model: MarkovTable, policy: NDArray[np.int64],
    *, discount: float, limit: int,
) -> Regret:  # fmt: skip
    """The regret of a policy (S,) and its parts."""

    def best(table: MarkovTable) -> NDArray[np.int64]:
        return np.asarray(table.value_iteration(discount).argmax(-1), np.int64)

    open_pairs = np.broadcast_to(true.reachable()[:, None], visits.shape)
    chosen = best(model)
    return Regret(
        optimum=true.optimum(limit),
        stationary=true.policy_return(best(true), limit),
        by_counts=true.policy_return(best(counts), limit),
        by_model=true.policy_return(chosen, limit),
        policy=true.policy_return(policy, limit),
        imagined=model.policy_return(policy, limit),
        imagined_optimum=model.policy_return(chosen, limit),
        pairs=int(open_pairs.sum()),
        visited=int((open_pairs & (visits > 0)).sum()),
        fewest=int(visits[open_pairs].min()),
    )
