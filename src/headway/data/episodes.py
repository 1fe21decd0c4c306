"""Episodes: played in lockstep, kept as data files, read as windows."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from headway.data.environments import BrokenEpisodeError, Environment, Maker, Observation
from headway.errors import DataError
from headway.storage.commit import commit_folder
from headway.storage.manifest import problems
from headway.storage.tensors import read_tensors

Policy = Callable[[Observation], NDArray[np.int64]]  # observations (B, …) -> actions (B,)
TENSORS, FACTS = "episodes.safetensors", "facts.json"
COLUMNS = ("observations", "actions", "rewards", "ends", "starts")
HELD_OUT = 10  # every tenth episode is for validation
SIDE_BY_SIDE = 8  # episodes played at a time


@dataclass(frozen=True, slots=True)
class Episodes:
    """Episodes end to end: of one with T steps there are T + 1 rows, the last of which holds an observation only."""

    observations: Observation  # (N, …)
    actions: NDArray[np.int64]  # (N,)
    rewards: NDArray[np.float32]  # (N,)
    ends: NDArray[np.bool_]  # (N,) whether the world ended with this step; never where only the time was up
    starts: NDArray[np.int64]  # (E + 1,) where each episode begins, and where the last one ends
    taken: int  # steps that were taken in the environment, those of dropped episodes included
    dropped: int = 0  # episodes that broke

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Steps of each episode (E,)."""
        return np.diff(self.starts) - 1

    @property
    def steps(self) -> int:
        """Steps of all that were kept."""
        return int(self.lengths.sum())

    @property
    def returns(self) -> NDArray[np.float64]:
        """The summed rewards of each episode (E,)."""
        totals = np.concatenate([[0.0], np.cumsum(self.rewards, dtype=np.float64)])
        return np.asarray(totals[self.starts[1:]] - totals[self.starts[:-1]])

    def age(self) -> NDArray[np.int64]:
        """How many steps of its episode lie before each row (N,)."""
        return np.arange(len(self.actions)) - np.repeat(self.starts[:-1], np.diff(self.starts))

    def rows(self, episode: int) -> slice:
        """Where an episode lies."""
        return slice(int(self.starts[episode]), int(self.starts[episode + 1]))

    def pick(self, chosen: NDArray[np.int64]) -> Episodes:
        """These episodes alone."""
        rows = [np.arange(self.starts[n], self.starts[n + 1]) for n in chosen]
        flat = np.concatenate(rows) if rows else np.zeros(0, np.int64)
        starts = np.cumsum([0, *map(len, rows)], dtype=np.int64)
        return replace(
            self,
            observations=self.observations[flat],
            actions=self.actions[flat],
            rewards=self.rewards[flat],
            ends=self.ends[flat],
            starts=starts,
        )

    def returns_to_go(self, discount: float = 1.0) -> NDArray[np.float64]:
        """The discounted rewards from each row to the end of its episode (N,)."""
        out = np.zeros(len(self.rewards))
        last = set((self.starts[1:] - 1).tolist())
        ahead = 0.0
        for n in range(len(out) - 1, -1, -1):
            ahead = 0.0 if n in last else float(self.rewards[n]) + discount * ahead
            out[n] = ahead
        return out


def concatenate(parts: list[Episodes]) -> Episodes:
    """Several collections as one."""
    offsets = itertools.accumulate((len(part.actions) for part in parts), initial=0)
    starts = [part.starts[:-1] + at for part, at in zip(parts, offsets, strict=False)]
    ends = np.asarray([sum(len(part.actions) for part in parts)])
    return Episodes(
        np.concatenate([part.observations for part in parts]),
        np.concatenate([part.actions for part in parts]),
        np.concatenate([part.rewards for part in parts]),
        np.concatenate([part.ends for part in parts]),
        np.concatenate([*starts, ends]),
        sum(part.taken for part in parts),
        sum(part.dropped for part in parts),
    )


class _Playing:
    """One episode under way."""

    def __init__(self, environment: Environment, seed: int) -> None:
        self.environment = environment
        self.observations = [environment.reset(seed)]
        self.actions: list[int] = []
        self.rewards: list[float] = []
        self.ended = False

    def step(self, action: int) -> bool:
        """Whether the episode is over."""
        observation, reward, self.ended, cut = self.environment.step(action)
        self.observations.append(observation)
        self.actions.append(action)
        self.rewards.append(reward)
        return self.ended or cut


def play(
    make: Maker, policy: Policy, seeds: Iterator[int], *, budget: int | None = None, together: int = SIDE_BY_SIDE
) -> Episodes:
    """Play an episode a seed, several side by side; a budget of steps cuts off those under way when it is used up.

    An episode whose environment raises, or gives a number that is none, is dropped and counted. Raises DataError if
    nothing is left.
    """
    environments = [make() for _ in range(together)]
    done: dict[int, _Playing] = {}
    under_way: dict[int, _Playing] = {}
    numbered = enumerate(seeds)
    taken = dropped = 0
    reason = ""

    def begin(environment: Environment) -> None:
        nonlocal dropped, reason
        for _ in range(SIDE_BY_SIDE):  # resets that break must not go on for ever
            number, seed = next(numbered, (None, 0))
            if number is None:
                return
            try:
                under_way[number] = _Playing(environment, seed)
                return
            except BrokenEpisodeError as error:
                dropped, reason = dropped + 1, str(error)

    for environment in environments:
        begin(environment)
    while under_way and (budget is None or taken < budget):
        at = list(under_way)
        actions = policy(np.stack([under_way[n].observations[-1] for n in at]))
        for n, action in zip(at, actions.tolist(), strict=True):
            if budget is not None and taken >= budget:
                break
            episode = under_way[n]
            taken += 1
            try:
                over = episode.step(action)
            except BrokenEpisodeError as error:
                dropped, reason, over = dropped + 1, str(error), True
                del under_way[n]
            else:
                if over:
                    done[n] = under_way.pop(n)
            if over:
                begin(episode.environment)
    done |= {n: episode for n, episode in under_way.items() if episode.actions}
    for environment in environments:
        environment.close()
    if not done:
        raise DataError(f"not one episode was played to its end: {reason or 'no seeds'}")
    return _flat([done[n] for n in sorted(done)], taken, dropped)


def _flat(episodes: list[_Playing], taken: int, dropped: int) -> Episodes:
    ends = np.concatenate([[*[False] * (len(e.actions) - 1), e.ended, False] for e in episodes]).astype(bool)
    return Episodes(
        np.concatenate([np.stack(e.observations) for e in episodes]),
        np.concatenate([np.asarray([*e.actions, 0], np.int64) for e in episodes]),
        np.concatenate([np.asarray([*e.rewards, 0.0], np.float32) for e in episodes]),
        ends,
        np.cumsum([0, *(len(e.observations) for e in episodes)], dtype=np.int64),
        taken,
        dropped,
    )


def write_episodes(folder: Path, episodes: Episodes, facts: dict[str, Any]) -> None:
    """Keep episodes as a folder of data files, whole or not at all."""
    with commit_folder(folder) as draft:
        draft.tensors(TENSORS, {name: torch.from_numpy(np.array(getattr(episodes, name))) for name in COLUMNS})
        counts = {"episodes": len(episodes), "taken": episodes.taken, "dropped": episodes.dropped}
        draft.json(FACTS, {**facts, **counts})


def read_episodes(folder: Path) -> Episodes:
    """What `write_episodes` kept. Raises DataError naming what is wrong with it."""
    wrong = problems(folder)
    if wrong:
        raise DataError(f"{folder}: {'; '.join(wrong)}")
    tensors = read_tensors(folder / TENSORS)
    facts = json.loads((folder / FACTS).read_text())
    observations, actions, rewards, ends, starts = (tensors[name].numpy() for name in COLUMNS)
    return Episodes(observations, actions, rewards, ends, starts, int(facts["taken"]), int(facts["dropped"]))


@dataclass(frozen=True, slots=True)
class EpisodeWindows:
    """Every stretch of `length` steps of some episodes; those that hang over an end are shorter, so that each step is
    in as many windows as any other.
    """

    begins: NDArray[np.int64]  # (M,) rows
    lengths: NDArray[np.int64]  # (M,)

    @classmethod
    def of(cls, episodes: Episodes, length: int) -> EpisodeWindows:
        """All windows there are."""
        begins, lengths = [], []
        for start, steps in zip(episodes.starts[:-1].tolist(), episodes.lengths.tolist(), strict=True):
            at = np.arange(1 - length, steps)
            begin = np.maximum(at, 0)
            begins.append(start + begin)
            lengths.append(np.minimum(at + length, steps) - begin)
        return cls(np.concatenate(begins), np.concatenate(lengths))

    def __len__(self) -> int:
        return len(self.begins)


@dataclass(frozen=True, slots=True)
class EpisodeSplit:
    """Episodes to learn from, or to validate on, and every window of them."""

    episodes: Episodes
    windows: EpisodeWindows
    ages: NDArray[np.int64]
    goes_on: NDArray[np.bool_]  # rows from which a step was taken
    rows: NDArray[np.int64]  # their numbers

    @classmethod
    def of(cls, episodes: Episodes, length: int) -> EpisodeSplit:
        """All that is needed of episodes."""
        goes_on = np.ones(len(episodes.actions), bool)
        goes_on[episodes.starts[1:] - 1] = False
        return cls(episodes, EpisodeWindows.of(episodes, length), episodes.age(), goes_on, np.flatnonzero(goes_on))


def split_episodes(every: Episodes) -> tuple[Episodes, Episodes]:
    """Episodes to learn from, and every tenth to validate on: the last of a few, the only one of one."""
    held = np.arange(len(every)) % HELD_OUT == HELD_OUT - 1
    if not held.any():
        held[-1] = len(every) > 1
    return every.pick(np.flatnonzero(~held)), every.pick(np.flatnonzero(held if held.any() else ~held))
