from __future__ import annotations

from headway.labs import sentences
from tests.labs.broken import Mutation

batch, samples = sentences.batch, sentences.samples

BROKEN = (
    Mutation("batch", lambda *, feed_back=True: batch(feed_back=False), fails="loss in nats"),  # never reads its words
    Mutation(
        "samples",
        lambda model, count, *, seed, feed_back: samples(model, count, seed=seed, feed_back=False),
        fails="share of samples that are one",
    ),
)
