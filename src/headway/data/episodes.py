"""Episodes: collected from several environments in lockstep, stored, and read as windows."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from headway.checked_json import JsonFields
from headway.data.environments import BrokenEpisodeError, Environment, Maker, Observation
from headway.documents import read_json
from headway.errors import ConfigError, DataError
from headway.storage.commit import commit_folder
from headway.storage.manifest import problems
from headway.storage.tensors import read_tensors

Policy = Callable[[Observation], NDArray[np.int64]]  # observations (B, …) -> actions (B,)


@dataclass(frozen=True, slots=True)
class History:
    """An episode so far: one observation more than actions."""

    observations: Sequence[Observation]
    actions: Sequence[int]


@dataclass(frozen=True, slots=True)
class HistoryPolicy:
    """A policy that reads the whole episode so far, not one observation."""

    act: Callable[[Sequence[History]], NDArray[np.int64]]  # B histories -> actions (B,)


TENSORS, FACTS = "episodes.safetensors", "facts.json"
COLUMNS = ("observations", "actions", "rewards", "ends", "starts")
DTYPES = (torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float32, torch.float64)
HELD_OUT = 10  # every tenth episode is for validation
PARALLEL = 8  # environments stepped together
HALF = 2**30  # seeds to learn with lie below it, seeds for evaluation at or above: no episode is in both
EPISODES = "episodes"  # the folder of a run that holds its episodes


@dataclass(frozen=True, slots=True)
class Episodes:
    """Concatenated episodes: one with T steps has T + 1 rows, the last of which has only an observation."""

    observations: Observation  # (N, …)
    actions: NDArray[np.int64]  # (N,)
    rewards: NDArray[np.float32]  # (N,)
    ends: NDArray[np.bool_]  # (N,) whether the episode terminated with this step; False if it was truncated
    starts: NDArray[np.int64]  # (E + 1,) first row of each episode, and the end of the last one
    taken: int  # environment steps, including those of dropped episodes
    dropped: int = 0  # episodes dropped because of errors

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Steps of each episode (E,)."""
        return np.diff(self.starts) - 1

    @property
    def steps(self) -> int:
        """Total steps of the episodes."""
        return int(self.lengths.sum())

    @property
    def returns(self) -> NDArray[np.float64]:
        """The summed rewards of each episode (E,)."""
        totals = np.concatenate([[0.0], np.cumsum(self.rewards, dtype=np.float64)])
        return np.asarray(totals[self.starts[1:]] - totals[self.starts[:-1]])

    def age(self) -> NDArray[np.int64]:
        """The time step of each row within its episode (N,)."""
        return np.arange(len(self.actions)) - np.repeat(self.starts[:-1], np.diff(self.starts))

    def rows(self, episode: int) -> slice:
        """The rows of an episode."""
        return slice(int(self.starts[episode]), int(self.starts[episode + 1]))

    def pick(self, chosen: NDArray[np.int64]) -> Episodes:
        """A selection of episodes."""
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
        """The discounted sum of rewards from each row to the end of its episode (N,)."""
        out = np.zeros(len(self.rewards))
        last = set((self.starts[1:] - 1).tolist())
        future = 0.0
        for n in range(len(out) - 1, -1, -1):
            future = 0.0 if n in last else float(self.rewards[n]) + discount * future
            out[n] = future
        return out


def seeds_to_learn(*stream: int) -> Iterator[int]:
    """An endless stream of seeds for training episodes."""
    random = np.random.default_rng(stream)
    while True:
        yield int(random.integers(HALF))


def fresh_seeds(count: int, seed: int) -> Iterator[int]:
    """`count` seeds that no training episode had. Raises ConfigError for a seed below 0."""
    if seed < 0:
        raise ConfigError(f"seed={seed}, allowed: 0 and above")
    random = np.random.default_rng([HALF, seed])
    return itertools.islice(iter(lambda: HALF + int(random.integers(HALF)), -1), count)


def at_random(actions: int, *stream: int) -> Policy:
    """Every action as likely as any other."""
    random = np.random.default_rng(stream)
    return lambda observations: random.integers(actions, size=len(observations))


def concatenate(parts: list[Episodes]) -> Episodes:
    """Several collections of episodes as one."""
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


class _Rollout:
    """An episode in progress."""

    def __init__(self, environment: Environment, seed: int) -> None:
        self.environment = environment
        self.observations = [environment.reset(seed)]
        self.actions: list[int] = []
        self.rewards: list[float] = []
        self.ended = False

    def step(self, action: int) -> bool:
        """Take an action -> whether the episode is over."""
        observation, reward, self.ended, cut = self.environment.step(action)
        self.observations.append(observation)
        self.actions.append(action)
        self.rewards.append(reward)
        return self.ended or cut


def play(
    make: Maker,
    policy: Policy | HistoryPolicy,
    seeds: Iterator[int],
    *,
    budget: int | None = None,
    together: int = PARALLEL,
) -> Episodes:
    """Play one episode per seed, several in parallel; a budget of steps truncates those in progress when exhausted.

    An episode whose environment raises or returns invalid values is dropped and counted. Raises DataError if no episode
    is left.
    """
    environments = [make() for _ in range(together)]
    done: dict[int, _Rollout] = {}
    running: dict[int, _Rollout] = {}
    numbered = enumerate(seeds)
    taken = dropped = 0
    reason = ""

    def begin(environment: Environment) -> None:
        nonlocal dropped, reason
        for _ in range(PARALLEL):  # limits repeated failures of reset
            number, seed = next(numbered, (None, 0))
            if number is None:
                return
            try:
                running[number] = _Rollout(environment, seed)
                return
            except BrokenEpisodeError as error:
                dropped, reason = dropped + 1, str(error)

    for environment in environments:
        begin(environment)
    while running and (budget is None or taken < budget):
        at = list(running)
        actions = _chosen(policy, [running[n] for n in at])
        for n, action in zip(at, actions.tolist(), strict=True):
            if budget is not None and taken >= budget:
                break
            episode = running[n]
            taken += 1
            try:
                over = episode.step(action)
            except BrokenEpisodeError as error:
                dropped, reason, over = dropped + 1, str(error), True
                del running[n]
            else:
                if over:
                    done[n] = running.pop(n)
            if over:
                begin(episode.environment)
    done |= {n: episode for n, episode in running.items() if episode.actions}
    for environment in environments:
        environment.close()
    if not done:
        raise DataError(f"no episode could be completed: {reason or 'no seeds'}")
    return _flat([done[n] for n in sorted(done)], taken, dropped)


def _chosen(policy: Policy | HistoryPolicy, running: list[_Rollout]) -> NDArray[np.int64]:
    if isinstance(policy, HistoryPolicy):
        return policy.act([History(each.observations, each.actions) for each in running])
    return policy(np.stack([each.observations[-1] for each in running]))


def _flat(episodes: list[_Rollout], taken: int, dropped: int) -> Episodes:
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
    """Commit episodes as a folder. Raises StorageError."""
    with commit_folder(folder) as draft:
        draft.tensors(TENSORS, {name: torch.from_numpy(np.array(getattr(episodes, name))) for name in COLUMNS})
        counts = {"episodes": len(episodes), "taken": episodes.taken, "dropped": episodes.dropped}
        draft.json(FACTS, {**facts, **counts})


def read_episodes(folder: Path) -> Episodes:
    """Read what `write_episodes` wrote. Raises DataError naming the problem."""
    wrong = problems(folder)
    if wrong:
        raise DataError(f"{folder}: {'; '.join(wrong)}")
    tensors = read_tensors(folder / TENSORS)
    facts = JsonFields(read_json(folder / FACTS), where=str(folder / FACTS))
    missing = [name for name in COLUMNS if name not in tensors]
    if missing:
        raise DataError(f"{folder / TENSORS}: no tensor {missing[0]!r}")
    for name in COLUMNS:
        if tensors[name].dtype not in DTYPES:
            raise DataError(f"{folder / TENSORS}: {name} is {tensors[name].dtype}, which episodes do not have")
    observations, actions, rewards, ends, starts = (tensors[name].numpy() for name in COLUMNS)
    found = Episodes(observations, actions, rewards, ends, starts, facts.integer("taken"), facts.integer("dropped"))
    _expect_sound(folder / TENSORS, found)
    return found


def _expect_sound(path: Path, found: Episodes) -> None:
    """Raise DataError for columns of other types or sizes, episodes without a step, and numbers that are not finite."""
    types = {"actions": np.int64, "rewards": np.float32, "ends": np.bool_, "starts": np.int64}
    for name, dtype in types.items():
        column = getattr(found, name)
        if column.ndim != 1 or column.dtype != dtype:
            raise DataError(
                f"{path}: {name} is {column.dtype} of shape {column.shape}, expected a row of {np.dtype(dtype)}"
            )
    rows = {name: len(getattr(found, name)) if getattr(found, name).ndim else 0 for name in COLUMNS[:-1]}
    if len(set(rows.values())) > 1:
        raise DataError(f"{path}: columns of different lengths: {rows}")
    bounds = found.starts
    if len(bounds) < 2 or bounds[0] != 0 or bounds[-1] != rows["actions"] or (np.diff(bounds) < 2).any():
        raise DataError(
            f"{path}: starts of episodes do not divide {rows['actions']:,} rows, expected 2 rows each or more"
        )
    for name in ("observations", "rewards"):
        column = getattr(found, name)
        finite = np.isfinite(column)  # of whole numbers always
        if not finite.all():
            raise DataError(f"{path}: {name}: row {np.argwhere(~finite)[0][0] + 1} holds NaN or infinity")
    if found.actions.min() < 0:
        raise DataError(
            f"{path}: actions: row {int(found.actions.argmin()) + 1} is {found.actions.min()}, expected 0 or more"
        )


@dataclass(frozen=True, slots=True)
class EpisodeWindows:
    """All windows of `length` steps of some episodes; those that overlap an end are shorter, so that each step is in
    as many windows as any other.
    """

    begins: NDArray[np.int64]  # (M,) first row
    lengths: NDArray[np.int64]  # (M,)

    @classmethod
    def of(cls, episodes: Episodes, length: int) -> EpisodeWindows:
        """All windows of the episodes."""
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
    """The episodes of a split and their windows."""

    episodes: Episodes
    windows: EpisodeWindows
    ages: NDArray[np.int64]
    goes_on: NDArray[np.bool_]  # rows that have an action
    rows: NDArray[np.int64]  # indices of those rows

    @classmethod
    def of(cls, episodes: Episodes, length: int) -> EpisodeSplit:
        """The split of these episodes."""
        goes_on = np.ones(len(episodes.actions), bool)
        goes_on[episodes.starts[1:] - 1] = False
        return cls(episodes, EpisodeWindows.of(episodes, length), episodes.age(), goes_on, np.flatnonzero(goes_on))


def split_episodes(every: Episodes) -> tuple[Episodes, Episodes]:
    """Training episodes, and every tenth for validation (at least the last; a single episode is used for both)."""
    held = np.arange(len(every)) % HELD_OUT == HELD_OUT - 1
    if not held.any():
        held[-1] = len(every) > 1
    return every.pick(np.flatnonzero(~held)), every.pick(np.flatnonzero(held if held.any() else ~held))
