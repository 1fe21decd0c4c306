from __future__ import annotations

from headway.labs import scaling
from tests.labs.broken import Mutation

weights = scaling.weights

BROKEN = (
    Mutation("weights", lambda q, k, power: weights(q, k, 0.0), fails="entropy at d_k = 4,096, divided"),  # no scale
    Mutation("weights", lambda q, k, power: weights(q, k, 0.5), fails="entropy at d_k = 4,096, not divided"),
    Mutation("weights", lambda q, k, power: (q @ k.mT).softmax(0), fails="the same divided"),  # over queries
    Mutation("jacobian_trace", lambda p: float(p.sum(-1).mean()), fails="trace of the softmax"),
)
