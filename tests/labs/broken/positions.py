from __future__ import annotations

from headway.labs import positions
from tests.labs.broken import Mutation

run_config = positions.run_config


def always_learned(kind, **rest):
    return run_config("learned", **rest)


def always_sinusoidal(kind, **rest):
    return run_config("sinusoidal", **rest)


BROKEN = (
    Mutation("run_config", always_sinusoidal, fails="ALiBi: rise of the loss at 4", flags={"kinds": "alibi"}),
    Mutation("run_config", always_sinusoidal, fails="learned: longest text", flags={"kinds": "learned", "steps": "2"}),
)
