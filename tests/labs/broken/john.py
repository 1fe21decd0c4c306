from __future__ import annotations

import torch

from headway.labs import john
from tests.labs.broken import Mutation

build = john.build


def uniform(kind):
    """Attention that weighs all words alike."""
    model = build(kind)
    attention = getattr(model, "attention", None)
    if attention is not None:
        attention.tap_weights.register_forward_hook(lambda tap, inputs, out: torch.full_like(out, 1 / out.shape[-1]))
    return model


def attends(kind):
    """Every model attends."""
    return build(john.ATTENDING)


BROKEN = (
    Mutation("build", uniform, fails="GRU with attention: right"),
    Mutation("build", attends, fails="GRU with attention: points ahead with 12"),
)
