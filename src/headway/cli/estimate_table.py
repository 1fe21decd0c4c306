"""An estimate for people: whether it fits, its memory by part, its time and cost."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields

from headway.estimate.memory import TrainingMemory
from headway.estimate.plan import Range, TrainingCost
from headway.training.quantities import duration

GIB = 2**30


def lines(found: TrainingCost, name: str) -> Iterator[str]:
    """The table."""
    config, memory, machine = found.config, found.memory, found.machine
    train = config.train
    yield f"{name}: {found.parameters:,} parameters, {train.precision}, on {found.gpus} × {machine.title}"
    verdict = "fits" if found.fits else "does not fit"
    yield f"{verdict}: {memory.peak / GIB:.2f} GiB of {machine.memory / GIB:.0f} GiB at the peak of a step"
    for part in fields(TrainingMemory):
        count = getattr(memory, part.name)
        if count:
            yield f"  {part.name:12} {count / GIB:8.2f} GiB"
    yield f"arithmetic    {_si(found.flops.palm)}FLOP a {found.unit}, {_si(found.flops.causal)} without what masks hide"
    yield f"step          {found.tokens_per_step:,} {found.unit} in {_times(found.seconds_per_step)}"
    yield f"training      {found.tokens:,} {found.unit} in {_times(found.hours.times(3600))}"
    if found.cost is not None:
        yield f"cost          {found.cost.low:,.0f} to {found.cost.high:,.0f}"


def _times(seconds: Range) -> str:
    return f"{duration(seconds.low)} to {duration(seconds.high)}"


def _si(value: float) -> str:
    for unit, one in (("T", 1e12), ("G", 1e9), ("M", 1e6)):
        if value >= one:
            return f"{value / one:.3g} {unit}"
    return f"{value:.3g} "
