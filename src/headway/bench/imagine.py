"""Imagined rollouts of the CartPole world model with a KV cache, against recomputing the whole past each step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import torch

from headway.bench.result import BenchReport, Options, compare
from headway.models.world import World
from headway.presets import build
from headway.tasks.world_model.imagination import Start, acting, drawn, imagine


@dataclass(frozen=True, slots=True, kw_only=True)
class ImagineSizes:
    """How many rollouts of how many steps."""

    rollouts: int = 512
    horizon: int = 16
    rounds: int = 7


SIZES = ImagineSizes()


def run(options: Options, sizes: ImagineSizes = SIZES) -> BenchReport:
    """A batch of imagined rollouts on the CPU."""
    model = cast(World, build("world-cartpole"))
    nothing = torch.zeros(sizes.rollouts, 0, dtype=torch.long)
    start = Start(0.05 * torch.randn(sizes.rollouts, 1, 4), nothing, nothing.new_zeros(sizes.rollouts, 1))
    act = acting(model, drawn)
    result = compare(
        f"{sizes.rollouts} imagined rollouts of {sizes.horizon} steps, against no cache",
        lambda: imagine(model, start, sizes.horizon, act),
        lambda: _without_cache(model, start, sizes.horizon),
        rounds=sizes.rounds,
    )
    return BenchReport([result], {"model_steps_per_second": round(sizes.rollouts * sizes.horizon / result.ours)})


@torch.inference_mode()
def _without_cache(model: World, start: Start, horizon: int) -> None:
    """The same rollouts without a KV cache."""
    states, actions, act = start.states, start.actions, acting(model, drawn)
    h = torch.zeros(len(actions), model.width)
    for k in range(horizon):
        actions = torch.cat([actions, act(states[:, -1], h, k).unsqueeze(1)], 1)
        h = model(states, actions)[:, -1]
        after = model.reader.draw(h, states[:, -1])
        model.rewarded(h, after)
        states = torch.cat([states, after.unsqueeze(1)], 1)
