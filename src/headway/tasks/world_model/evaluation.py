"""Evaluation of a world model: open-loop rollouts on real actions, calibration, imagined and real returns."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headway.data.episodes import Episodes, fresh_seeds, play
from headway.decoding.non_finite import expect_finite
from headway.metrics.world import (
    CalibrationBin,
    HorizonError,
    ReturnStatistics,
    WorldReport,
    calibration_bins,
    errors_by_horizon,
    total_variation,
)
from headway.models.observation import TokenReader
from headway.models.world import World
from headway.tasks.world_model.imagination import ImaginedRollout, Start, acting, greedy, imagine
from headway.tasks.world_model.policy import learned
from headway.tasks.world_model.training import WorldTraining

FARTHEST = 10  # steps of an open-loop rollout
STARTS = 512  # of them
DRAWS = 16  # next states drawn to learn how likely an end is
OFTEN = 1000  # visits from which on a pair of state and action must be known well


def report(
    model: World, task: WorldTraining, split: str, device: torch.device, *, episodes: int, seed: int
) -> WorldReport:
    """Everything `headway evaluate` reports of a world model; the real episodes have fresh seeds."""
    real = play(task.make, learned(model, device), fresh_seeds(episodes, seed))
    ends, rewards = calibrations(model, task, split, device)
    return WorldReport(
        loss=task.validate(model, device),
        by_horizon=open_loop(model, task, split, device),
        ends=ends,
        rewards=rewards,
        real=ReturnStatistics.of(real.returns),
        imagined=ReturnStatistics.of(imagined(model, real, device, task.make().limit).returns.cpu().numpy()),
        taken=task.taken,
        tables=table_distances(model, task, device),
    )


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
        rollout = imagine(model, Start(states[:1].transpose(0, 1), nothing, ages), FARTHEST, lambda _, k: actions[k])
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
    true = _true_table(task)
    if true is None or not isinstance(model.reader, TokenReader) or model.reader.parts != 1:
        return {}
    states, actions, _ = true.shape
    grid = torch.arange(states, device=device).repeat_interleave(actions).view(-1, 1, 1)
    logits = model.reader.logits(model(grid, torch.arange(actions, device=device).repeat(states).view(-1, 1)))
    said = logits[:, 0, 0].double().softmax(-1).view(true.shape).cpu().numpy()
    visits = np.zeros(true.shape[:2])
    for part in task.splits.values():
        np.add.at(visits, (part.episodes.observations[part.rows, 0], part.episodes.actions[part.rows]), 1)
    away, often = total_variation(said, true), visits >= OFTEN
    found = {"table_distance": float((away * visits).sum() / visits.sum()), "table_pairs": float(often.sum())}
    return {**found, "table_distance_worst": float(away[often].max())} if often.any() else found


def _true_table(task: WorldTraining) -> NDArray[np.float64] | None:
    """P(next | state, action) as gymnasium's toy worlds keep it: (S, A, S)."""
    environment = task.make()
    chances = getattr(environment.env.unwrapped, "P", None)
    environment.close()
    if not isinstance(chances, dict):
        return None
    table = np.zeros((len(chances), environment.actions, len(chances)))
    for state, actions in chances.items():
        for action, outcomes in actions.items():
            for chance, after, _, _ in outcomes:
                table[state, action, after] += chance
    return table
