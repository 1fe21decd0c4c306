from __future__ import annotations

import torch

from tests.labs.broken import Mutation

BROKEN = (  # blind
    Mutation("shown", torch.zeros_like, fails="first state alone: nats"),
    Mutation("shown", torch.zeros_like, fails="with attention: captions that are right"),
)
