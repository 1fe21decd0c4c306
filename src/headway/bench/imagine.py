"""Imagination: the CartPole model's steps a second in cached batches, beside reading the whole past again each step."""

from __future__ import annotations

import torch

from headway.bench.result import Options, Report, compare
from headway.models.world import World
from headway.presets import build
from headway.tasks.world_model.imagination import Start, acting, drawn, dream

DREAMS, HORIZON, ROUNDS = 512, 16, 7


def run(options: Options) -> Report:
    """Dreams side by side, a horizon each, on the CPU."""
    model = build("world-cartpole")
    assert isinstance(model, World)
    nothing = torch.zeros(DREAMS, 0, dtype=torch.long)
    start = Start(0.05 * torch.randn(DREAMS, 1, 4), nothing, nothing.new_zeros(DREAMS, 1))
    act = acting(model, drawn)
    result = compare(
        f"{DREAMS} dreams of {HORIZON} steps, against no cache",
        lambda: dream(model, start, HORIZON, act),
        lambda: _read_again(model, start),
        rounds=ROUNDS,
    )
    return Report([result], {"model_steps_per_second": round(DREAMS * HORIZON / result.ours)})


@torch.inference_mode()
def _read_again(model: World, start: Start) -> None:
    """The same dream without a cache."""
    states, actions, act = start.states, start.actions, acting(model, drawn)
    for k in range(HORIZON):
        actions = torch.cat([actions, act(states[:, -1], k).unsqueeze(1)], 1)
        h = model(states, actions)[:, -1]
        after = model.reader.draw(h, states[:, -1])
        model.rewarded(h, after)
        states = torch.cat([states, after.unsqueeze(1)], 1)
