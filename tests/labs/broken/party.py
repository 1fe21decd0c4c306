from __future__ import annotations

import torch

from headway.labs import party
from tests.labs.broken import Mutation

BROKEN = (
    Mutation("forget", lambda inputs, gamma: inputs.sum(0), fails="guest by guest"),  # γ = 1
    Mutation("forget", lambda inputs, gamma: inputs.flip(0).sum(0) * gamma, fails="weights .6561"),
    Mutation(
        "attention_weights",  # no softmax: all guests alike
        lambda guests, gap: torch.full((guests,), 1 / guests, dtype=torch.float64),
        fails="attention to the first guest",
    ),
    Mutation("unbind", lambda keys, memory: party.bind(keys, memory), fails="recall of 4 pairs"),  # not the inverse
)
