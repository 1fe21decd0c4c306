"""World models: collect episodes, learn the world from them, learn to act in imagined rollouts, and repeat."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import cast

import numpy as np
import torch
from torch import Tensor, nn

from headway.counts import counted
from headway.data.batching import Indices
from headway.data.environments import Environment, Observation
from headway.data.episodes import (
    EPISODES,
    Episodes,
    EpisodeSplit,
    HistoryPolicy,
    Policy,
    at_random,
    concatenate,
    play,
    read_episodes,
    seeds_to_learn,
    split_episodes,
    write_episodes,
)
from headway.errors import DataError
from headway.models.observation import CodeReader
from headway.models.world import World
from headway.tasks.training_task import Batch, Phase, Term
from headway.tasks.world_model.config import WorldModel
from headway.tasks.world_model.imagination import Start, acting, drawn, imagine
from headway.tasks.world_model.merging import merged
from headway.tasks.world_model.policy_learning import policy_learning
from headway.tasks.world_model.schedule import PhaseName, Rounds, cooling
from headway.tasks.world_model.tried import TriedPolicy
from headway.tasks.world_model.world_loss import world_loss

EVALUATED = 256  # windows in one forward pass of an evaluation
REVIVED = 50  # steps of a code phase between looks for codes that nothing uses


class WorldTraining:
    """Batches of windows for the world model, of starts for rollouts; the environment runs only between rounds."""

    fixed_shapes = False

    def __init__(
        self,
        config: WorldModel,
        name: str,
        folder: Path,
        *,
        batch_tokens: int,
        seed: int,
        cache: Path,
        note: Callable[[str], None] = lambda text: None,
        whole_past: bool = False,
    ) -> None:
        self.config, self.name, self.folder, self.seed, self.note = config, name, folder, seed, note
        self.whole_past = whole_past  # whether a policy reads what happened before the step at hand
        self.cache = cache
        self.make = partial(Environment, name, config.view)
        self.collected: list[Episodes] = []
        self.splits: dict[str, EpisodeSplit] = {}
        frames = max(batch_tokens // 8, 1)
        rows: dict[PhaseName, int] = {
            "code": frames, "world": max(batch_tokens // config.length, 1), "act": config.dreams,
        }  # fmt: skip
        self.order = Rounds(config.round, rows, self._total, seed)
        self.now: PhaseName = "world"
        self.every_window: Batch | None = None  # of the training split, merged; made when a phase needs it
        self.encoded: dict[str, Observation] = {}  # pictures of each split as codes, while the code does not change
        self.learning = policy_learning(config)
        self.tried = TriedPolicy()
        self.rolls = True  # whether the step at hand begins rollouts
        while len(self.collected) < len(config.collect) and self._place(len(self.collected)).exists():
            self.collected.append(read_episodes(self._place(len(self.collected))))
        if self.collected:
            self._divide()

    # --- collecting ------------------------------------------------------------------------------------------------

    def phase(self, model: nn.Module, step: int, device: torch.device) -> Phase:
        """What this step is for. The first one of a round collects, as far as that was not done before."""
        number, name, at, steps = self.config.round.at(step)
        model = cast(World, model)
        fresh = step % self.config.round.steps == 0
        if fresh:
            self._begin(model, number, device)
        else:
            self.expect_rounds(step)
            self._forget_after(number)
        if name == "code" and number == 0 and at % REVIVED == 0 and at < steps // 2:
            self._revive(model, at, device)
        if name == "act" and at == 0 and number and self.config.restart_policy:
            model.restart_policy(self.seed + number)
        self.now = name
        if name == "code":
            self.encoded = {}
        elif model.codes is not None and not self.encoded:
            self.encoded = {split: _codes(model.codes, part, device) for split, part in self.splits.items()}
        if name != "act":
            self.learning.restore({})
        self.rolls = name == "act" and self.learning.begin(at)
        share = self.config.act_rate if name == "act" else 1.0
        return Phase(name, share * cooling(at, steps))

    def expect_rounds(self, steps: int) -> None:
        """Raise DataError unless the episodes are there that so many steps of training have seen."""
        number = (steps - 1) // self.config.round.steps if steps else 0
        if len(self.collected) <= min(number, len(self.config.collect) - 1):
            raise DataError(
                f"{self._place(len(self.collected))}: the episodes of this round are missing; copy them back"
            )

    def _begin(self, model: World, number: int, device: torch.device) -> None:
        """Collect for a round, and measure what there is now."""
        self._forget_after(number)
        if number < len(self.config.collect) and len(self.collected) <= number:
            kept = self._place(number)  # from a sitting that came as far as this: the same episodes again
            self.collected.append(read_episodes(kept) if kept.exists() else self._collect(model, number, device))
            if number and self.config.final_policy == "tried":
                self.tried.judge(model, self.collected[-1], self.make().limit)
        self._divide()
        train = self.splits["train"]
        episodes, rows = train.episodes, train.rows
        if episodes.observations.dtype == np.float32:
            states = torch.from_numpy(episodes.observations)
            model.renormalise(states.to(device), (states[rows + 1] - states[rows]).to(device))
        largest = np.abs(episodes.returns_to_go(self.config.discount)).max()
        model.scale.fill_(max(float(largest), 1e-3))
        given = episodes.rewards[rows][episodes.rewards[rows] != 0]
        if len(given):
            model.bounds.copy_(torch.from_numpy(np.stack([given.min(), given.max()])))
        if number == len(self.config.collect) - 1:
            self.tried.restore(model)

    def _forget_after(self, number: int) -> None:
        """A run that goes on from an older checkpoint finds rounds that are yet to come: not to be known now."""
        if len(self.collected) > number + 1:
            self.collected = self.collected[: number + 1]
            self._divide()

    def _collect(self, model: World, number: int, device: torch.device) -> Episodes:
        stream = (self.seed, number)
        policy: Policy | HistoryPolicy = at_random(self.make().actions, *stream)
        if number:
            policy = self.learning.collector(model, concatenate(self.collected), device, *stream)
        found = play(self.make, policy, seeds_to_learn(*stream), budget=self.config.collect[number])
        write_episodes(self._place(number), found, {"environment": self.name, "round": number, "seed": self.seed})
        lost = f", {found.dropped:,} broke and were dropped" if found.dropped else ""
        taken, who = counted(found.taken, "environment step"), "the policy" if number else "chance"
        self.note(
            f"round {number}: {taken} by {who}, "
            f"{counted(len(found), 'episode')}, mean return {found.returns.mean():.3f}{lost}"
        )
        return found

    def _place(self, number: int) -> Path:
        return self.folder / EPISODES / f"round-{number:03d}"

    def _divide(self) -> None:
        """Every tenth episode of all that is there is held out."""
        self.every_window, self.encoded = None, {}
        train, val = split_episodes(concatenate(self.collected))
        self.splits = {
            "train": EpisodeSplit.of(train, self.config.length),
            "val": EpisodeSplit.of(val, self.config.length),
        }

    def _revive(self, model: World, at: int, device: torch.device) -> None:
        pictures = self.splits["train"].episodes.observations
        random = np.random.default_rng([self.seed, at])
        chosen = pictures[random.integers(len(pictures), size=min(256, len(pictures)))]
        if model.codes is not None:
            model.codes.revive(torch.from_numpy(chosen).to(device))

    @property
    def taken(self) -> int:
        """Environment steps that were used so far."""
        return sum(part.taken for part in self.collected)

    # --- batches and losses ----------------------------------------------------------------------------------------

    def _total(self, phase: PhaseName) -> int:
        train = self.splits["train"]
        if phase == "code":
            return len(train.episodes.actions)
        return len(train.windows) if phase == "world" else len(train.rows)

    def batch(self, indices: Indices) -> Batch:
        """Pictures, windows or starts: what the phase at hand learns from."""
        if self.now == "code":
            pictures = torch.from_numpy(self.splits["train"].episodes.observations[indices])
            return Batch((pictures,), torch.zeros(0), len(indices))
        if self.now == "world":
            if self.config.windows == "drawn":
                return self.windows("train", indices)
            if self.every_window is None:
                self.every_window = merged(self.windows("train", np.arange(len(self.splits["train"].windows))))
            return self.every_window
        count = self.learning.count(len(indices))
        if not self.rolls:
            return Batch((), torch.zeros(0), count)
        context = int(indices[0]) % (self.config.context + 1)
        start = self.starts("train", indices, context)
        return Batch((start.states, start.actions, start.ages), torch.zeros(0), count)

    def windows(self, split: str, indices: Indices) -> Batch:
        """Observations (B, T + 1, …), actions (B, T), ages (B, T), reward and end (B, T, 2), which count (B, T)."""
        part = self.splits[split]
        begins, lengths = part.windows.begins[indices], part.windows.lengths[indices]
        steps = np.arange(int(lengths.max()))
        counted = steps < lengths[:, None]
        rows = begins[:, None] + np.minimum(steps, lengths[:, None] - 1)
        every, observations = part.episodes, self._observations(split)
        seen = observations[np.concatenate([rows, rows[:, -1:] + 1], 1)]
        # Past its last step a window repeats it: what follows the last step is the row after it, wherever that stands.
        seen[np.arange(len(rows)), lengths] = observations[begins + lengths]
        outcome = np.stack([every.rewards[rows], every.ends[rows].astype(np.float32)], -1)
        inputs = (seen, every.actions[rows], part.ages[rows], counted)
        return Batch(tuple(map(torch.from_numpy, inputs)), torch.from_numpy(outcome), int(lengths.sum()))

    def starts(self, split: str, indices: Indices, context: int) -> Start:
        """Where imagined rollouts may begin: rows (B,) of a split with `context` real steps before each.

        Rows too near the start of their episode are moved on to where there are enough, or left out. Where a policy
        reads the past, a context below the longest is the whole past: rows are moved to that step of their episode.
        """
        part = self.splits[split]
        rows = part.rows[indices]
        least = context if self.whole_past and context < self.config.context else part.ages[rows]
        wanted = np.maximum(least, context)
        moved = np.minimum(rows + wanted - part.ages[rows], len(part.ages) - 1)
        kept = moved[(part.ages[moved] == wanted) & part.goes_on[moved]]
        if not len(kept):
            kept, context = rows, 0
        back = kept[:, None] - np.arange(context, -1, -1)
        seen = torch.from_numpy(self._observations(split)[back])
        actions = torch.from_numpy(part.episodes.actions[back[:, :-1]])
        return Start(seen, actions, torch.from_numpy(part.ages[back]))

    def _observations(self, split: str) -> Observation:
        """What was observed at each row of a split, pictures as codes where they are known."""
        return self.encoded.get(split, self.splits[split].episodes.observations)

    def loss(self, model: nn.Module, batch: Batch, *, smoothing: float = 0.0, step: int = 0) -> dict[str, Term]:
        """Of the phase at hand."""
        model = cast(World, model)
        if self.now == "code":
            assert model.codes is not None, "only pictures have a code to learn"
            (pictures,) = batch.inputs
            assert pictures is not None
            return {name: Term(x.sum(), batch.count) for name, x in model.codes.autoencoded(pictures).items()}
        if self.now == "world":
            nats, reward, end = world_loss(model, batch, rare=self.config.rare)
            return {name: Term(x, batch.count) for name, x in (("observation", nats), ("reward", reward), ("end", end))}
        start = None
        if batch.inputs:
            states, actions, ages = batch.inputs
            assert states is not None
            assert actions is not None
            assert ages is not None
            start = Start(model.reader.state(states), actions, ages)
        return self.learning.loss(model, start, batch.count)

    def state(self) -> dict[str, Tensor]:
        """What the policy's learner keeps between steps, and the best policy that was tried."""
        return self.learning.state() | {f"tried.{name}": tensor for name, tensor in self.tried.held.items()}

    def restore(self, state: dict[str, Tensor]) -> None:
        """Continue from what a checkpoint holds."""
        self.tried.held = {name[6:]: tensor for name, tensor in state.items() if name.startswith("tried.")}
        self.learning.restore({name: tensor for name, tensor in state.items() if not name.startswith("tried.")})

    # --- evaluation ------------------------------------------------------------------------------------------------

    @torch.no_grad()
    def validate(self, model: nn.Module, device: torch.device) -> float:
        """-log p of what comes next and of the end, with the reward's squared error, a step; on held-out episodes."""
        model = cast(World, model)
        total = count = 0.0
        windows = self.splits["val"].windows
        picked = np.unique(np.linspace(0, len(windows) - 1, min(len(windows), 4 * EVALUATED)).astype(np.int64))
        for at in range(0, len(picked), EVALUATED):
            batch = self.windows("val", picked[at : at + EVALUATED]).to(device)
            total += float(sum(world_loss(model, batch, exact=True)))
            count += batch.count
        return total / count

    def samples(self, model: nn.Module, device: torch.device) -> list[str]:
        """The length and the return of the policy's imagined rollouts."""
        model = cast(World, model)
        val = self.splits["val"]
        start = self.starts("val", np.arange(min(len(val.rows), 64)), 0)
        states = model.reader.state(start.states.to(device))
        rollout = imagine(
            model,
            Start(states, start.actions.to(device), start.ages.to(device)),
            2 * self.config.horizon,
            acting(model, drawn),
        )
        alive = float(rollout.alive.float().sum(0).mean())
        return [
            f"{counted(self.taken, 'environment step')}; imagined rollouts of {2 * self.config.horizon} steps last "
            f"{alive:.1f}, their return is {float(rollout.returns.mean()):.3f}"
        ]


def _codes(reader: CodeReader, part: EpisodeSplit, device: torch.device) -> Observation:
    """The codes (N, P) of all pictures of a split."""
    pictures = part.episodes.observations
    chunks = np.array_split(pictures, -(-len(pictures) // EVALUATED))
    return np.concatenate([reader.state(torch.from_numpy(each).to(device)).cpu().numpy() for each in chunks])
