"""Acting: fresh episodes for a target return, or for none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from headway.data.environments import BrokenEpisodeError, Environment, Maker, Observation
from headway.decoding.non_finite import expect_finite
from headway.errors import DataError
from headway.models.decision_transformer import Decision


@torch.no_grad()
def follow(
    model: Decision,
    make: Maker,
    device: torch.device,
    target: float | None,
    seeds: list[int],
    *,
    temperature: float,
    seed: int,
) -> NDArray[np.float64]:
    """The return of an episode for each seed. Raises DataError if all episodes break.

    The model is given the return `target`, which each reward reduces; None is 0 throughout. Actions are drawn from the
    softmax of logits over `temperature`; 0 takes the likeliest.
    """
    random = np.random.default_rng([seed, round(1000 * (target or 0.0))])
    playing = [Attempt(make(), target, each) for each in seeds]
    while under_way := [each for each in playing if each.goes_on]:
        length = min(max(len(each.seen) for each in under_way), model.context)
        inputs = [_padded([each.window(n, length) for each in under_way]) for n in range(3)]
        at = torch.tensor([min(len(each.seen), length) - 1 for each in under_way])
        logits = model(*(torch.from_numpy(x).to(device) for x in inputs)).cpu()[torch.arange(len(at)), at]
        expect_finite(logits, "episode")
        # The largest of logits with Gumbel noise is a draw from their softmax; scaled by the temperature, as is this.
        chosen = (logits.double().numpy() + temperature * random.gumbel(size=logits.shape)).argmax(-1)
        for each, action in zip(under_way, chosen.tolist(), strict=True):
            each.step(action)
    returns = [each.total for each in playing if not each.broke]
    if not returns:
        raise DataError("no episode could be completed")
    return np.asarray(returns, np.float64)


class Attempt:
    """One episode with a target return, or without."""

    def __init__(self, environment: Environment, target: float | None, seed: int) -> None:
        self.environment, self.total = environment, 0.0
        self.counts_down, self.asked = target is not None, [target or 0.0]
        self.goes_on, self.broke = True, False
        self.actions = [0]  # the last one is yet to come, and not looked at
        self.seen: list[Observation] = []
        self._try(lambda: self.seen.append(environment.reset(seed)))

    def _try(self, what: Callable[[], None]) -> None:
        try:
            what()
        except BrokenEpisodeError:
            self.goes_on, self.broke = False, True

    def window(self, which: int, length: int) -> NDArray[Any]:
        """The last steps of the target returns, the observations, or the actions."""
        part: list[Any] = (self.asked, self.seen, self.actions)[which][-length:]
        return np.asarray(part, (np.float32, self.seen[0].dtype, np.int64)[which])

    def step(self, action: int) -> None:
        """Act, and ask for what is left."""

        def act() -> None:
            observation, reward, ended, cut = self.environment.step(action)
            self.actions[-1:] = [action, 0]
            self.seen.append(observation)
            self.asked.append(self.asked[-1] - (reward if self.counts_down else 0.0))
            self.total += reward
            self.goes_on = not (ended or cut)

        self._try(act)


def _padded(parts: list[NDArray[Any]]) -> NDArray[Any]:
    """Side by side, filled up on the right, where nothing looks."""
    out = np.zeros((len(parts), max(map(len, parts)), *parts[0].shape[1:]), parts[0].dtype)
    for row, part in zip(out, parts, strict=True):
        row[: len(part)] = part
    return out
