from __future__ import annotations

from headway.labs import linear
from tests.labs.broken import Mutation

stack, superposition = linear.stack, linear.superposition

BROKEN = (
    Mutation("stack", lambda layers, network: stack(layers, network=False), fails="with the network"),
    Mutation("stack", lambda layers, network: stack(layers, network=True), fails="attention alone, one token"),
    Mutation(
        "superposition",
        lambda layers, generator, held: superposition(layers, generator, held=False),
        fails="f(2x − 3y)",
    ),
)
