from __future__ import annotations

from headway.labs import scores
from tests.labs.broken import Mutation

scoring, layer = scores.scoring, scores.layer

BROKEN = (
    Mutation("scoring", lambda kind, hard=False: scoring(kind, hard=True), fails="soft over hard"),
    Mutation("layer", lambda kind, hard=False: layer(kind), fails="hard: gradient"),
    Mutation("layer", lambda kind, hard=False: layer(kind, hard=True), fails="equal keys"),
    Mutation("layer", lambda kind, hard=False: layer("multiplicative" if kind != "bilinear" else "bilinear", hard=True),
             fails="soft: gradient"),
)  # fmt: skip
