from __future__ import annotations

import torch

from headway.labs import john
from tests.labs.broken import Mutation

build = john.build


def uniform(*, attends):
    """Attention that weighs all words alike."""
    model = build(attends=attends)
    if model.attention is not None:
        model.attention.tap_weights.register_forward_hook(
            lambda tap, inputs, out: torch.full_like(out, 1 / out.shape[-1])
        )
    return model


BROKEN = (
    Mutation("build", uniform, fails="with attention: right"),
    Mutation("build", lambda attends: build(attends=True), fails="12 clauses"),  # both attend
)
