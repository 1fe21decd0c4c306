from __future__ import annotations

from dataclasses import replace

from headway.labs import sampling
from tests.labs.broken import Mutation

distribution, draw_tokens = sampling.distribution, sampling.draw_tokens
BROKEN = (
    Mutation(
        "distribution",  # the temperature multiplies
        lambda logits, setting: distribution(logits, replace(setting, temperature=1 / setting.temperature)),
        fails="entropy: smallest rise",
    ),
    Mutation(
        "distribution",  # top-p stops one token too early
        lambda logits, setting: distribution(logits, replace(setting, top_p=0.6 if setting.top_p < 1 else 1.0)),
        fails="top-p: probability",
    ),
    Mutation(
        "draw_tokens",
        lambda logits, setting, count, generator: draw_tokens(
            logits, sampling.Sampling(temperature=0.3), count, generator
        ),
        fails="shares of",
    ),
)
