from __future__ import annotations

from headway.labs import tricks
from tests.labs.broken import Mutation

variances, one_parameter, valley = tricks.variances, tricks.one_parameter, tricks.valley

BROKEN = (
    Mutation("variances", lambda start, *rest: variances(lambda fan: 0.5 * start(fan), *rest), fails="He: factor"),
    Mutation(
        "one_parameter",  # plain SGD in place of every optimiser
        lambda config, start, gradients, rate: start - rate * sum(gradients),
        fails="first Adam step",
    ),
    Mutation("valley", lambda optimiser, steps: valley("SGD", steps), fails="narrow valley"),
)
