from __future__ import annotations

import torch

from tests.labs.broken import Mutation


def linear(layers, x):
    """No activation: any number of layers is one line."""
    for weights, biases in layers:
        x = torch.baddbmm(biases, x, weights)
    return x


BROKEN = (
    Mutation("apply", linear, fails="error of the widest"),
    Mutation("fold", lambda x: 2 * x.relu(), fails="straight pieces of 12 units"),  # one unit of the two
)
