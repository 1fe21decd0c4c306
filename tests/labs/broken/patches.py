from __future__ import annotations

from headway.labs import patches
from tests.labs.broken import Mutation

config, tokens = patches.config, patches.tokens
SHORT = {"steps": "2"}

BROKEN = (
    Mutation(
        "config", lambda *, shifted, local: config(shifted=shifted, local=False), fails="LSA: largest", flags=SHORT
    ),
    Mutation(
        "tokens",  # pixels column by column
        lambda embedding, images: tokens(embedding, images.mT),
        fails="patches through a matrix",
        flags=SHORT,
    ),
    Mutation(
        "looks",  # a window of one patch: a corner does not see the opposite one
        lambda model, image: patches.torch.eye(17),
        fails="lower-right patch",
        flags=SHORT,
    ),
    Mutation("config", config, fails="digits right, plain patches", flags=SHORT),  # untrained
)
