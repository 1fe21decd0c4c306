from __future__ import annotations

from headway.labs import permutation
from headway.nn import Sinusoidal
from headway.ops import Causal, attend
from tests.labs.broken import Mutation

stack, word_differs = permutation.stack, permutation.word_differs


def causal(q, k, v):
    return attend(q[None, None], k[None, None], v[None, None], mask=Causal())[0, 0]


BROKEN = (
    Mutation("attention", causal, fails="each of the eight lines"),
    Mutation("attention", lambda q, k, v: (q @ k.mT).softmax(0) @ v, fails="each of the eight lines"),  # over queries
    Mutation("stack", lambda position, generator: stack(Sinusoidal(), generator), fails="stack without positions"),
    Mutation("stack", lambda position, generator: stack(None, generator), fails="each position"),  # position removed
    Mutation(
        "word_differs",
        lambda first, second, word, position, seed: word_differs(first, second, word, None, seed),
        fails="with sinusoids",
    ),
)
