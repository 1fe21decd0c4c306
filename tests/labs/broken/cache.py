from __future__ import annotations

from dataclasses import replace

from headway.labs import cache
from tests.labs.broken import Mutation

with_cache, without_cache = cache.with_cache, cache.without_cache


class Forgetful:
    """A model that begins with an empty cache at every step."""

    def __init__(self, model):
        self.model, self.start = model, model.start

    def extend(self, tokens, state):
        return self.model.extend(tokens, self.model.start())


BROKEN = (
    Mutation("with_cache", lambda model, tokens: with_cache(Forgetful(model), tokens), fails="logits with a cache"),
    Mutation("with_cache", lambda model, tokens: with_cache(Forgetful(model), tokens), fails="bytes kept for a token"),
    Mutation(
        "with_cache",  # computes everything again
        lambda model, tokens: replace(without_cache(model, tokens), bytes_kept=with_cache(model, tokens).bytes_kept),
        fails="with a cache: exponent",
    ),
    Mutation("without_cache", with_cache, fails="without: exponent"),
)
