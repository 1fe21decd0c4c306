"""What a model of an environment observes, at the environment's sizes."""

from __future__ import annotations

from dataclasses import replace

from headway.data.environments import Shape, Symbols, Vector
from headway.models.observation import Codes, Numbers, Observing, Tokens


def fit_observation(observing: Observing, shape: Shape) -> Observing:
    """How a model reads what an environment shows: as configured, at the environment's sizes."""
    if isinstance(shape, Vector):
        return Numbers(size=shape.size)
    if isinstance(shape, Symbols):
        least = 0.0 if isinstance(observing, Numbers) else observing.least
        return Tokens(parts=shape.parts, levels=shape.levels, least=least)
    return replace(observing, image=shape.size) if isinstance(observing, Codes) else Codes(image=shape.size)
