from __future__ import annotations

from headway.labs import tokens
from tests.labs.broken import Mutation

merges = tokens.merges
BROKEN = (
    Mutation(
        "types", lambda sentences: sorted({*sentences[0].split(), *sentences[1].split()}), fails="types in the three"
    ),
    Mutation("types", lambda sentences: sorted({*"".join(sentences)}), fails="types in the three"),  # characters
    Mutation(
        "merges", lambda counts, times: merges(dict.fromkeys(counts, 1), times), fails="first merges"
    ),  # no counts
    Mutation("round_trip", lambda tokenizer, text: text.isascii(), fails="share of random"),
)
