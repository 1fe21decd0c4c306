"""Episodes as frames: what was observed, and what was imagined, drawn alike."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from headway.data.environments import (
    ImageObservation,
    Observation,
    Rendered,
    Symbols,
    make_renderer,
    render_observation,
)
from headway.data.episodes import Episodes
from headway.models.world import World
from headway.plots.worlds import Frame, bars_frame, table_frame
from headway.tasks.world_model.imagination import ImaginedRollout
from headway.tasks.world_model.training import WorldTraining


def real_frames(task: WorldTraining, episodes: Episodes, number: int = 0) -> list[Frame]:
    """The frames of one real episode."""
    draw = _drawing(task)
    return [draw(each) for each in episodes.observations[episodes.rows(number)]]


@torch.no_grad()
def imagined_frames(model: World, task: WorldTraining, rollout: ImaginedRollout, number: int = 0) -> list[Frame]:
    """The frames of one imagined rollout, to its end."""
    draw = _drawing(task)
    states = rollout.states[: int(rollout.alive[:, number].sum()) + 1, number]
    if model.codes is not None:
        seen = (255 * model.codes.pictures(states)).round().byte().cpu().numpy()
    else:
        seen = states.cpu().numpy()
    return [draw(each) for each in seen]


def _drawing(task: WorldTraining) -> Callable[[Observation], Frame]:
    """How an observation is drawn: by the environment where it can be put there, else as cells or bars."""
    environment = task.make()
    if isinstance(environment.shape, ImageObservation):
        return lambda seen: np.ascontiguousarray(seen.transpose(1, 2, 0))
    env = None if isinstance(task.config.view, Rendered) else make_renderer(task.name)
    if env is not None:
        env.reset(seed=0)
    span = np.abs(task.splits["train"].episodes.observations).max(0)

    def draw(seen: Observation) -> Frame:
        frame = None if env is None else render_observation(env, seen)
        if frame is not None:
            return frame
        if isinstance(environment.shape, Symbols):
            return table_frame(seen, environment.shape.levels)
        return bars_frame(seen, span)

    return draw
