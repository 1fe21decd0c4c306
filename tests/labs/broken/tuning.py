from __future__ import annotations

from headway.labs import tuning
from tests.labs.broken import Mutation

begun = tuning.begun

BROKEN = (
    Mutation(
        "begun",  # nothing is taken from the pretrained model
        lambda source, vocab, seed: begun(None, vocab, seed),
        fails="18 labels: points",
        flags={"steps": "2"},
    ),
)
