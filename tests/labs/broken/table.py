from __future__ import annotations

from tests.labs.broken import Mutation

BROKEN = (
    Mutation("cost", lambda hours, gpus, tera: hours * 3600 * tera * 1e12, fails="base: 12 hours"),  # one GPU
    Mutation("step_by_formula", lambda config, sentences: 6.0 * sentences, fails="counted operations of a forward"),
    Mutation(
        "block_size",  # one attention in the decoder: no look at the source
        lambda width, inner, attentions=1: 4 * width * width + 2 * width * inner + inner + 9 * width,
        fails="sizes by formula",
    ),
    Mutation("brevity", lambda hypothesis, reference: 1.0, fails="BLEU by hand (13a tokens)"),
    Mutation("split_13a", str.split, fails="BLEU by hand (13a tokens)"),
)
