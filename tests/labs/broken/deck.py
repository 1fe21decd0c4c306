from __future__ import annotations

from headway.labs import deck
from tests.labs.broken import Mutation

self_attention = deck.self_attention


def causal(x):
    """Attention with a mask: it is not equivariant."""
    from headway.ops import Causal, attend

    return attend(x[None, None], x[None, None], x[None, None], mask=Causal())[0, 0]


BROKEN = (
    Mutation("normalise", deck.printed_normalise, fails="erratum 2"),
    Mutation("self_attention", causal, fails="erratum 6"),
    Mutation("raised", lambda run: None, fails="listing “TransformerBlock”"),
    Mutation("parity", lambda x: (1.0, 0.0), fails="corrected block = torch.nn"),
)
