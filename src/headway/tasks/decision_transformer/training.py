"""Training a Decision Transformer on logged episodes, and playing it for a target return; there is no world model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import numpy as np
import torch
from torch import nn

from headway.counts import counted
from headway.data.batching import Indices, Shuffled
from headway.data.environments import BrokenEpisodeError, Environment, Maker, Observation
from headway.data.episodes import (
    Episodes,
    EpisodeSplit,
    Policy,
    concatenate,
    fresh_seeds,
    play,
    seeds_to_learn,
    split_episodes,
)
from headway.decoding.non_finite import expect_finite
from headway.errors import ConfigError, DataError
from headway.metrics.world import ReturnStatistics, rank_correlation
from headway.models.decision_transformer import Decision
from headway.tasks.capabilities import PlayResult
from headway.tasks.decision_transformer.config import Deciding
from headway.tasks.training_task import IGNORED, Batch, Phase, Term, cross_entropy

EVALUATED = 256  # windows in one forward pass of an evaluation


@dataclass(frozen=True, slots=True)
class ReturnConditionedReport(PlayResult):
    """What came of asking for returns."""

    environment: str
    targets: tuple[float, ...]
    found: list[ReturnStatistics]
    logged: ReturnStatistics
    taken: int

    @property
    def correlation(self) -> float:
        """The rank correlation of target returns and achieved returns."""
        return rank_correlation(np.asarray(self.targets), np.asarray([each.mean for each in self.found]))

    def to_json(self) -> dict[str, Any]:
        """Flat values; the score is that of the largest target return."""
        most = max(range(len(self.targets)), key=lambda n: self.targets[n])
        asked = {f"return_asked_{target:g}": each.mean for target, each in zip(self.targets, self.found, strict=True)}
        return {
            "mean_return": self.found[most].mean,
            "return_error": self.found[most].error,
            "episodes": self.found[most].episodes,
            "environment_steps": self.taken,
            "logged_return": self.logged.mean,
            "rank_correlation": self.correlation,
            **asked,
        }

    def facts(self) -> dict[str, str]:
        """The achieved return for each target return."""
        rows = {
            "environment": self.environment,
            "what it is": "a decision transformer: it imitates logged episodes and has no model of the world",
            "log": f"{self.logged}  mean return of {counted(self.logged.episodes, 'episode')}, "
            f"{counted(self.taken, 'environment step')}",
        }
        rows |= {f"asked for {target:g}": str(each) for target, each in zip(self.targets, self.found, strict=True)}
        return rows | {"rank correlation": f"{self.correlation:.3f}  {counted(self.found[0].episodes, 'episode')} each"}

    def render(self, suffix: str) -> bytes:
        """Raise ConfigError: nothing is imagined."""
        raise ConfigError("--render is not supported by a decision transformer: it does not imagine episodes")


class DecisionTraining:
    """Windows of logged episodes with the returns that were still to come, and the actions taken there."""

    fixed_shapes = False

    def __init__(
        self, config: Deciding, name: str, episodes: Episodes, *, length: int, batch_tokens: int, seed: int
    ) -> None:
        self.config, self.name, self.length, self.seed = config, name, length, seed
        self.make = partial(Environment, name, config.view)
        self.episodes = episodes
        train, val = split_episodes(episodes)
        self.splits = {"train": EpisodeSplit.of(train, length), "val": EpisodeSplit.of(val, length)}
        self.to_go = {split: part.episodes.returns_to_go() for split, part in self.splits.items()}
        self.order = Shuffled(len(self.splits["train"].windows), max(batch_tokens // (3 * length), 1), seed)

    def phase(self, model: nn.Module, step: int, device: torch.device) -> Phase:
        """One phase; before its first step the log is measured."""
        model = cast(Decision, model)
        if not step:
            seen = self.splits["train"].episodes.observations
            if model.numbers is not None:
                model.mean.copy_(torch.from_numpy(seen.mean(0)))
                model.std.copy_(torch.from_numpy(seen.std(0).clip(1e-6)))
            model.scale.fill_(max(float(np.abs(self.to_go["train"]).max()), 1e-3))
        return Phase("decide", 1.0)

    def batch(self, indices: Indices) -> Batch:
        """Of the training split."""
        return self._batch("train", indices)

    def _batch(self, split: str, indices: Indices) -> Batch:
        """Returns to go (B, T), observations (B, T, …), actions (B, T); what was done is what is to be guessed."""
        part = self.splits[split]
        begins, lengths = part.windows.begins[indices], part.windows.lengths[indices]
        steps = np.arange(int(lengths.max()))
        rows = begins[:, None] + np.minimum(steps, lengths[:, None] - 1)
        done = part.episodes.actions[rows]
        guessed = np.where(steps < lengths[:, None], done, IGNORED)
        inputs = (self.to_go[split][rows].astype(np.float32), part.episodes.observations[rows], done)
        return Batch(tuple(map(torch.from_numpy, inputs)), torch.from_numpy(guessed), int(lengths.sum()))

    def loss(self, model: nn.Module, batch: Batch, *, smoothing: float = 0.0, step: int = 0) -> dict[str, Term]:
        """Cross-entropy of the actions."""
        return {"action": Term(cross_entropy(model(*batch.inputs), batch.targets, smoothing), batch.count)}

    @torch.no_grad()
    def validate(self, model: nn.Module, device: torch.device) -> float:
        """Nats an action, on held-out episodes."""
        return self.evaluate(model, device, "val")

    @torch.no_grad()
    def evaluate(self, model: nn.Module, device: torch.device, split: str) -> float:
        """Nats an action, over windows spread through a split."""
        windows, total, count = self.splits[split].windows, 0.0, 0
        picked = np.unique(np.linspace(0, len(windows) - 1, min(len(windows), 4 * EVALUATED)).astype(np.int64))
        for at in range(0, len(picked), EVALUATED):
            batch = self._batch(split, picked[at : at + EVALUATED]).to(device)
            total += float(cross_entropy(model(*batch.inputs), batch.targets))
            count += batch.count
        return total / count

    def samples(self, model: nn.Module, device: torch.device) -> list[str]:
        """What the log holds."""
        returns = self.episodes.returns
        low, mid, high = np.quantile(returns, [0.1, 0.5, 0.9])
        return [
            f"a log of {counted(self.episodes.steps, 'environment step')}, {counted(len(returns), 'episode')}; "
            f"a tenth return below {low:.1f}, half below {mid:.1f}, a tenth above {high:.1f}"
        ]

    def asked(self, model: nn.Module, device: torch.device, *, episodes: int, seed: int) -> ReturnConditionedReport:
        """Ask for each return in fresh episodes."""
        model = cast(Decision, model)
        found = []
        for target in self.config.targets:
            returns = follow(model, self.make, device, target, list(fresh_seeds(episodes, seed)), seed=seed)
            found.append(ReturnStatistics.of(returns))
        return ReturnConditionedReport(
            self.name, self.config.targets, found, ReturnStatistics.of(self.episodes.returns), self.episodes.taken
        )


@torch.no_grad()
def follow(
    model: Decision,
    make: Maker,
    device: torch.device,
    target: float,
    seeds: list[int],
    *,
    seed: int,
) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """The return of an episode for each seed; actions are drawn. Raises DataError if all episodes break.

    The model is given the return `target`, which each reward reduces.
    """
    random = np.random.default_rng([seed, round(1000 * target)])
    playing = [Attempt(make(), target, each) for each in seeds]
    while under_way := [each for each in playing if each.goes_on]:
        length = min(max(len(each.seen) for each in under_way), model.context)
        inputs = [_padded([each.window(n, length) for each in under_way]) for n in range(3)]
        at = torch.tensor([min(len(each.seen), length) - 1 for each in under_way])
        logits = model(*(torch.from_numpy(x).to(device) for x in inputs)).cpu()[torch.arange(len(at)), at]
        expect_finite(logits, "episode")
        chosen = (logits.double().numpy() + random.gumbel(size=logits.shape)).argmax(-1)
        for each, action in zip(under_way, chosen.tolist(), strict=True):
            each.step(action)
    returns = [each.total for each in playing if not each.broke]
    if not returns:
        raise DataError("no episode could be completed")
    return np.asarray(returns, np.float64)


class Attempt:
    """One episode with a target return."""

    def __init__(self, environment: Environment, target: float, seed: int) -> None:
        self.environment, self.asked, self.total = environment, [target], 0.0
        self.goes_on, self.broke = True, False
        self.actions = [0]  # the last one is yet to come, and not looked at
        self.seen: list[Observation] = []
        self._try(lambda: self.seen.append(environment.reset(seed)))

    def _try(self, what: Callable[[], None]) -> None:
        try:
            what()
        except BrokenEpisodeError:
            self.goes_on, self.broke = False, True

    def window(self, which: int, length: int) -> np.ndarray[Any, np.dtype[Any]]:
        """The last steps of the target returns, the observations, or the actions."""
        part: list[Any] = (self.asked, self.seen, self.actions)[which][-length:]
        return np.asarray(part, (np.float32, self.seen[0].dtype, np.int64)[which])

    def step(self, action: int) -> None:
        """Act, and ask for what is left."""

        def act() -> None:
            observation, reward, ended, cut = self.environment.step(action)
            self.actions[-1:] = [action, 0]
            self.seen.append(observation)
            self.asked.append(self.asked[-1] - reward)
            self.total += reward
            self.goes_on = not (ended or cut)

        self._try(act)


def _padded(parts: list[np.ndarray[Any, np.dtype[Any]]]) -> np.ndarray[Any, np.dtype[Any]]:
    """Side by side, filled up on the right, where nothing looks."""
    out = np.zeros((len(parts), max(map(len, parts)), *parts[0].shape[1:]), parts[0].dtype)
    for row, part in zip(out, parts, strict=True):
        row[: len(part)] = part
    return out


def logged(config: Deciding, make: Maker, seed: int) -> Episodes:
    """A log of episodes, each by another policy drawn at random: few are any good, which is what a log is like."""
    seeds, random, parts, taken = seeds_to_learn(seed), np.random.default_rng([seed, 1]), [], 0
    actions = make().actions
    while taken < config.log:
        policy = _drawn_policy(actions, config.noise, random)
        parts.append(play(make, policy, iter([next(seeds)]), budget=config.log - taken, together=1))
        taken += parts[-1].taken
    return concatenate(parts)


def _drawn_policy(actions: int, noise: float, random: np.random.Generator) -> Policy:
    """The best action by random weights of the observation, save for a random share of chance."""
    weights: dict[int, Any] = {}
    chance = noise * random.random()

    def act(observations: Observation) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        flat = observations.reshape(len(observations), -1)
        if observations.dtype == np.float32:
            table = weights.setdefault(0, random.normal(size=(flat.shape[1], actions)))
            best = (flat @ table).argmax(-1)
        else:
            best = np.asarray([weights.setdefault(hash(row.tobytes()), random.integers(actions)) for row in flat])
        return np.where(random.random(len(flat)) < chance, random.integers(actions, size=len(flat)), best)

    return act
