"""Training a Decision Transformer on logged episodes, and playing it for a target return; there is no world model."""

from __future__ import annotations

from functools import partial
from typing import cast

import numpy as np
import torch
from torch import nn

from headway.counts import counted
from headway.data.batching import Indices, Shuffled
from headway.data.environments import Environment
from headway.data.episodes import Episodes, EpisodeSplit, fresh_seeds, split_episodes
from headway.metrics.world import ReturnStatistics
from headway.models.decision_transformer import Decision
from headway.tasks.decision_transformer.config import Deciding
from headway.tasks.decision_transformer.play import follow
from headway.tasks.decision_transformer.report import PlayedReturns, ReturnsReport
from headway.tasks.sharing import in_parts
from headway.tasks.training_task import IGNORED, Batch, Phase, Term, cross_entropy

EVALUATED = 256  # windows in one forward pass of an evaluation


class DecisionTraining:
    """Windows of logged episodes with the returns that were still to come, and the actions taken there."""

    fixed_shapes = False

    def __init__(
        self, config: Deciding, name: str, episodes: Episodes, *, length: int, batch_tokens: int, seed: int
    ) -> None:
        self.config, self.name, self.length, self.seed = config, name, length, seed
        self.make = partial(Environment, name, config.view)
        self.episodes = episodes
        imitate = config.imitate
        parts = zip(("train", "val"), split_episodes(episodes), strict=True)
        self.splits = {split: EpisodeSplit.of(imitate.chosen(part), length) for split, part in parts}
        self.to_go = {split: imitate.given_returns(part.episodes) for split, part in self.splits.items()}
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
        windows = self.splits[split].windows
        picked = np.unique(np.linspace(0, len(windows) - 1, min(len(windows), 4 * EVALUATED)).astype(np.int64))

        def scored(at: int) -> tuple[float, int]:
            batch = self._batch(split, picked[at : at + EVALUATED]).to(device)
            return float(cross_entropy(model(*batch.inputs), batch.targets)), batch.count

        found = in_parts(range(0, len(picked), EVALUATED), scored)
        total, count = (sum(column) for column in zip(*found, strict=True))
        return float(total / count)

    def samples(self, model: nn.Module, device: torch.device) -> list[str]:
        """What the log holds."""
        returns = self.episodes.returns
        low, mid, high = np.quantile(returns, [0.1, 0.5, 0.9])
        return [
            f"a log of {counted(self.episodes.steps, 'environment step')}, {counted(len(returns), 'episode')}; "
            f"a tenth return below {low:.1f}, half below {mid:.1f}, a tenth above {high:.1f}"
        ]

    def asked(self, model: nn.Module, device: torch.device, *, episodes: int, seed: int) -> ReturnsReport:
        """Fresh episodes for each of the task's returns; without a target where the model does not know returns."""
        config, model = self.config, cast(Decision, model)
        seeds = list(fresh_seeds(episodes, seed))
        play = partial(follow, model, self.make, device, seeds=seeds, temperature=config.temperature, seed=seed)
        targets = config.targets if config.imitate.asks else (None,)
        found = [PlayedReturns(target, play(target=target)) for target in targets]
        return ReturnsReport(
            environment=self.name,
            title=config.imitate.title,
            played=found,
            logged=ReturnStatistics.of(self.episodes.returns),
            taken=self.episodes.taken,
        )
