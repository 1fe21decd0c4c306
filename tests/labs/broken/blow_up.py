from __future__ import annotations

from tests.labs.broken import Mutation

BROKEN = (
    Mutation("normalise", lambda x: x, fails="LayerNorm: largest distance"),
    Mutation("normalise", lambda x: x / x.pow(2).mean().sqrt(), fails="LayerNorm of d equal numbers"),  # not centred
    Mutation("layer", lambda x, weights: x @ weights.mT / weights.shape[-1], fails="layer 1"),  # a mean, not a sum
)
