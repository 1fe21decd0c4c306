"""The ponder loss and the mean number of steps of models with adaptive depth (Graves 2016; Dehghani et al. 2019)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn

from headway.nn.adaptive_computation import Adaptive
from headway.nn.universal_stack import record_steps
from headway.tasks.training_task import Term


@contextmanager
def pondered(model: nn.Module, terms: dict[str, Term], count: int) -> Iterator[None]:
    """While open: a forward pass of training; its ponder loss is then added to `terms`.

    The term is the sum over a model's loops of the mean of N + R over tokens; the trainer divides by `count`.
    """
    with record_steps(model) as heard:
        yield
    costs = [
        loop.halting.ponder * cost.sum() / (steps > 0).sum()
        for loop, steps, cost in heard
        if isinstance(loop.halting, Adaptive) and loop.halting.ponder
    ]
    if costs:
        terms["ponder"] = Term(sum(costs[1:], costs[0]) * count, count)


@contextmanager
def mean_steps(model: nn.Module) -> Iterator[dict[str, float]]:
    """While open: the passes of an evaluation; then the mean steps of a token, by the JSON key of each side."""
    found: dict[str, float] = {}
    with record_steps(model) as heard:
        yield found
    for key, cross in (("mean_steps_encoder", False), ("mean_steps_decoder", True)):
        steps = [steps for loop, steps, _ in heard if (loop.blocks[0].cross is not None) == cross]
        tokens = sum(int((each > 0).sum()) for each in steps)
        if tokens:
            found[key] = sum(int(each.sum()) for each in steps) / tokens
