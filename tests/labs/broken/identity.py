from __future__ import annotations

from headway.labs import identity
from tests.labs.broken import Mutation

branch, initialise = identity.branch, identity.initialise


def never_zero(kind, *rest):
    made = initialise(kind.removesuffix(", zero"), *rest)
    return identity.BatchedNetwork(kind, made.weights, made.biases)


BROKEN = (
    Mutation("initialise", never_zero, fails="zero-initialised residual branches: largest error before"),
    Mutation("normalise", lambda z: z, fails="pre-norm over ResNet"),
    Mutation(
        "branch", lambda network, k, z: 0.01 * branch(network, k, z), fails="ResNet at depth 32"
    ),  # cannot explode
)
