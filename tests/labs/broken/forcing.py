from __future__ import annotations

import torch

from headway.labs import forcing
from tests.labs.broken import Mutation

forced, free, lines = forcing.forced, forcing.free, forcing.lines
SHORT = {"steps": "5"}

BROKEN = (
    Mutation("free", forced, fails="forced − free, last place", flags=SHORT),  # fed the right words
    Mutation("forced", lambda model, gold: forced(model, gold.roll(1, 1)), fails="words that differ", flags=SHORT),
    Mutation("free", lambda model, gold: free(model, gold).roll(1, 1), fails="perfect model: share", flags=SHORT),
    Mutation(
        "lines",  # no rule: a perfect model is not one
        lambda count, generator: torch.randint(forcing.NUMBERS, (count, forcing.LENGTH), generator=generator),
        fails="perfect model: share",
        flags=SHORT,
    ),
)
