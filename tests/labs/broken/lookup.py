from __future__ import annotations

from headway.labs import lookup
from tests.labs.broken import Mutation

by_pairs, soft_lookup = lookup.by_pairs, lookup.soft_lookup

BROKEN = (
    Mutation(  # hard: the best key alone
        "soft_lookup",
        lambda query, keys, values, beta: values[(query @ keys.mT).argmax(-1)],
        fails="β = 0",
    ),
    Mutation("soft_lookup", lambda query, keys, values, beta: soft_lookup(query, keys, values, 1.0), fails="β = 32"),
    Mutation("by_pairs", lambda q, k, v, causal: by_pairs(q * 2, k, v, causal=causal), fails="each pair"),
    Mutation("by_matrix", lambda q, k, v, causal: lookup.attend(q[None, None], k[None, None], v[None, None])[0, 0],
             fails="each pair"),  # without the mask
)  # fmt: skip
