"""Evaluation of a world model: open-loop rollouts on real actions, calibration, imagined and real returns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headway.data.environments import OPTIMUM
from headway.data.episodes import Episodes, HistoryPolicy, Policy, concatenate, fresh_seeds, play
from headway.decoding.non_finite import expect_finite
from headway.metrics.world import (
    CalibrationBin,
    HorizonError,
    Regret,
    ReturnByStep,
    ReturnStatistics,
    WorldReport,
    calibration_bins,
    errors_by_horizon,
    returns_by_step,
    total_variation,
)
from headway.models.world import World
from headway.tasks.world_model.imagination import ImaginedRollout, Start, acting, greedy, imagine
from headway.tasks.world_model.planning import (
    MarkovTable,
    counted_table,
    data_error,
    is_tabular,
    last_rows,
    learned_table,
    regret,
    true_table,
)
from headway.tasks.world_model.policy import learned
from headway.tasks.world_model.training import WorldTraining

FARTHEST = 10  # steps of an open-loop rollout
STARTS = 512  # of them
DRAWS = 16  # next states drawn to learn how likely an end is
STEPS = (1, 2, 5, 10, 20, 50, 100, 200)  # of an episode at which imagined and real returns are compared
CHUNK = 4096  # states compared at once
OFTEN = 1000  # visits from which on a pair of state and action must be known well


def report(
    model: World, task: WorldTraining, split: str, device: torch.device, *, episodes: int, seed: int
) -> WorldReport:
    """Everything `headway evaluate` reports of a world model; the real episodes have fresh seeds."""
    real = play(task.make, learned(model, device), fresh_seeds(episodes, seed))
    ends, rewards = calibrations(model, task, split, device)
    limit = task.make().limit
    rollout = imagined(model, real, device, limit)
    tabular = TabularPolicies.of(model, task)
    return WorldReport(
        loss=task.validate(model, device),
        by_horizon=open_loop(model, task, split, device),
        ends=ends,
        rewards=rewards,
        real=ReturnStatistics.of(real.returns),
        imagined=ReturnStatistics.of(rollout.returns.cpu().numpy()),
        taken=task.taken,
        tables=table_distances(model, task, device),
        by_step=_by_step(rollout, real, limit),
        familiar=familiar(model, task, real, device),
        regret=policy_regret(model, task, device),
        optimum=OPTIMUM.get(task.name),
        data_error=None if tabular is None else tabular.data_error(learned(model, device)),
    )


def _by_step(rollout: ImaginedRollout, real: Episodes, limit: int) -> list[ReturnByStep]:
    rewards = np.zeros((limit, len(real)))
    for n in range(len(real)):
        rows = real.rows(n)
        rewards[: rows.stop - rows.start - 1, n] = real.rewards[rows.start : rows.stop - 1]
    steps = [at for at in STEPS if at < limit]
    return returns_by_step((rollout.rewards * rollout.alive).double().cpu().numpy(), rewards, [*steps, limit])


def familiar(model: World, task: WorldTraining, played: Episodes, device: torch.device) -> float:
    """The share of steps whose state and action are among the collected ones; numbers in cells of a deviation each."""
    met: set[bytes] = set()
    for part in task.collected:
        met.update(_keys(model, part, device))
    keys = _keys(model, played, device)
    return sum(key in met for key in keys) / len(keys)


@torch.no_grad()
def _keys(model: World, episodes: Episodes, device: torch.device) -> list[bytes]:
    """What was observed and done at each step, as bytes that can be compared."""
    rows = np.flatnonzero(~last_rows(episodes))
    keys: list[bytes] = []
    for some in np.array_split(rows, max(len(rows) // CHUNK, 1)):
        states = model.reader.normal(model.reader.state(torch.from_numpy(episodes.observations[some]).to(device)))
        cells = states.round().to(torch.int16).cpu().numpy().reshape(len(some), -1)
        marked = np.concatenate([cells, episodes.actions[some, None].astype(np.int16)], 1)
        keys.extend(row.tobytes() for row in marked)
    return keys


@torch.no_grad()
def policy_regret(model: World, task: WorldTraining, device: torch.device) -> Regret | None:
    """What the greedy policy loses against the optimum, and in which part; None where the true table is unknown."""
    tabular = TabularPolicies.of(model, task)
    if tabular is None:
        return None
    true = tabular.true
    counts, visits = counted_table(tabular.episodes, *true.gains.shape)
    policy, table = tabular.actions(learned(model, device)), learned_table(model, device, true.starts)
    return regret(true, counts, visits, table, policy, discount=task.config.discount, limit=tabular.limit)


@dataclass(frozen=True, slots=True)
class TabularPolicies:
    """Policies of one observation in a world whose true table is known, so that their returns can be computed."""

    true: MarkovTable
    episodes: Episodes  # that the model learned from
    limit: int

    @classmethod
    def of(cls, model: World, task: WorldTraining) -> TabularPolicies | None:
        """None where the table is unknown, or a policy also reads the past and is no table."""
        environment = task.make()
        true = true_table(environment)
        environment.close()
        if true is None or not is_tabular(model) or model.remembers:
            return None
        return cls(true, concatenate(task.collected), environment.limit)

    def actions(self, policy: Policy | HistoryPolicy) -> NDArray[np.int64]:
        """What a policy does in each state (S,)."""
        assert not isinstance(policy, HistoryPolicy)
        return policy(np.arange(len(self.true.starts))[:, None])

    def exact_return(self, policy: Policy | HistoryPolicy) -> float:
        """The expected return by the true table; rounded, so that equally good policies have equal ones."""
        return round(self.true.policy_return(self.actions(policy), self.limit), 9)

    def data_error(self, policy: Policy | HistoryPolicy) -> float:
        """The standard error that finite data leave in its imagined return."""
        return data_error(self.episodes, self.actions(policy), self.true.gains.shape[1], self.limit)


def open_loop(model: World, task: WorldTraining, split: str, device: torch.device) -> list[HorizonError]:
    """Errors of rollouts from real starts on the real actions, and of repeating the last observation.

    Tokens: the share that is wrong; numbers: squared error over variance; pictures: squared error of pixels, 0 to 1.
    """
    part = task.splits[split]
    chosen = part.rows[np.unique(np.linspace(0, len(part.rows) - 1, STARTS).astype(np.int64))]
    ahead = chosen + np.arange(FARTHEST + 1)[:, None]  # (K + 1, B)
    same = part.ages[np.minimum(ahead, len(part.ages) - 1)] == part.ages[chosen] + np.arange(FARTHEST + 1)[:, None]
    ahead = np.where(same & (ahead < len(part.ages)), ahead, chosen)
    observations = torch.from_numpy(part.episodes.observations[ahead]).to(device)
    actions = torch.from_numpy(part.episodes.actions[ahead]).to(device)
    ages = torch.from_numpy(part.ages[chosen]).to(device).unsqueeze(1)
    states = model.reader.state(observations)
    nothing = torch.zeros(len(chosen), 0, dtype=torch.long, device=device)
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        rollout = imagine(
            model, Start(states[:1].transpose(0, 1), nothing, ages), FARTHEST, lambda state, memory, k: actions[k]
        )
    errors, still = _errors(model, rollout.states[1:], states, observations)
    return errors_by_horizon(errors, still, same[1:])


@torch.no_grad()
def _errors(
    model: World, rollout: Tensor, states: Tensor, observations: Tensor
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Errors of imagined states (K, B, …), and of the first one repeated: (K, B) each."""
    if model.codes is not None:
        frames = observations.float() / 255
        shown = torch.stack([model.codes.pictures(x) for x in rollout])
        wrong, still = ((x - frames[1:]).square().mean((2, 3, 4)) for x in (shown, frames[:1]))
    else:
        wrong, still = (model.reader.wrong(x, states[1:]) for x in (rollout, states[:1]))
    return wrong.double().cpu().numpy(), still.double().cpu().numpy()


@torch.no_grad()
def calibrations(
    model: World, task: WorldTraining, split: str, device: torch.device
) -> tuple[list[CalibrationBin], list[CalibrationBin]]:
    """Predicted one step ahead and observed: the probability of an end, and the reward."""
    windows = task.splits[split].windows
    batch = task.windows(split, np.unique(np.linspace(0, len(windows) - 1, STARTS).astype(np.int64))).to(device)
    observations, actions, ages, counted = batch.inputs
    assert observations is not None
    assert actions is not None
    assert counted is not None
    before = model.reader.state(observations)[:, :-1]
    h = model(before, actions, ages)
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        drawn = [model.rewarded(h, model.reader.draw(h, before)) for _ in range(DRAWS)]
    rewards = torch.stack([reward for reward, _ in drawn]).mean(0)[counted]
    ends = torch.stack([end.sigmoid() for _, end in drawn]).mean(0)[counted]
    happened = batch.targets[counted].double().cpu().numpy()
    return (
        calibration_bins(ends.double().cpu().numpy(), happened[:, 1]),
        calibration_bins(rewards.double().cpu().numpy(), happened[:, 0]),
    )


def imagined(
    model: World, real: Episodes, device: torch.device, limit: int, *, first: int | None = None
) -> ImaginedRollout:
    """Imagined rollouts of the policy over whole episodes, from the first observations of real ones."""
    rows = real.starts[:-1][:first]
    states = model.reader.state(torch.from_numpy(real.observations[rows]).to(device)).unsqueeze(1)
    nothing = torch.zeros(len(rows), 0, dtype=torch.long, device=device)
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        start = Start(states, nothing, nothing.new_zeros(len(rows), 1))
        rollout = imagine(model, start, limit, acting(model, greedy))
    expect_finite(rollout.returns, "imagined episode")
    return rollout


@torch.no_grad()
def table_distances(model: World, task: WorldTraining, device: torch.device) -> dict[str, float]:
    """Total variation between the learned and the true transition table, where the environment shows one.

    As the mean weighted by visits, and at worst over pairs of state and action that were often met.
    """
    environment = task.make()
    true = true_table(environment)
    environment.close()
    if true is None or not is_tabular(model):
        return {}
    _, visits = counted_table(concatenate(task.collected), *true.gains.shape)
    said, true_chances = learned_table(model, device).chances, true.chances
    away, often = total_variation(said, true_chances), visits >= OFTEN
    found = {"table_distance": float((away * visits).sum() / visits.sum()), "table_pairs": float(often.sum())}
    return {**found, "table_distance_worst": float(away[often].max())} if often.any() else found
