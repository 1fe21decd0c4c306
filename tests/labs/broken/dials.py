from __future__ import annotations

import torch

from headway.labs import dials
from tests.labs.broken import Mutation

forgetting = dials.forgetting


def added(x, positions):
    """A position that is added, not turned."""
    return x + 0.1 * positions.unsqueeze(-1)


BROKEN = (
    Mutation("turned", added, fails="RoPE: the product of two words"),
    Mutation("turned", lambda x, positions: x.expand(len(positions), -1), fails="RoPE: the product changes"),
    Mutation(
        "forgetting",  # no bias: all words alike
        lambda words, heads: torch.full((heads, words), 1 / words, dtype=torch.float64),
        fails="ALiBi with equal scores",
    ),
    Mutation("forgetting", lambda words, heads: forgetting(words, heads).flip(-1), fails="ALiBi with equal scores"),
)
