"""An estimate for people: whether it fits, its memory by part, its time and cost."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields

from headway.cli.units import bytes_text, count_text
from headway.estimate.decoding import DecodingCost
from headway.estimate.formulas import PUBLISHED
from headway.estimate.machines import MARGIN
from headway.estimate.memory import TrainingMemory
from headway.estimate.plan import Range, TrainingCost
from headway.training.quantities import duration

# What each part of the memory is, for people.
WORDS = {
    "weights": "weights", "gradients": "gradients", "optimiser": "optimiser", "activations": "kept for backward",
    "temporaries": "made by backward", "gathered": "gathered of shards", "other": "batch, buffers, mean of weights",
}  # fmt: skip


def lines(found: TrainingCost, name: str) -> Iterator[str]:
    """The table; `name` is the preset's."""
    config, memory, machine = found.config, found.memory, found.machine
    peak, there = bytes_text(memory.peak), bytes_text(machine.memory)
    yield f"{name}: {found.parameters:,} parameters, {config.train.precision}, on {found.gpus} × {machine.title}"
    if found.fits:
        yield f"memory       {peak} of {there} at the peak of a step: it fits"
    else:
        yield f"memory       {peak} of {there} at the peak of a step; with {MARGIN:.0%} to spare it does not fit"
        yield f"               {_smaller(found)}"
    for part in fields(TrainingMemory):
        if count := getattr(memory, part.name):
            yield f"               {WORDS[part.name]}: {bytes_text(count)}"
    unit, flops = found.unit.removesuffix("s"), found.flops
    hidden = "" if flops.causal == flops.palm else f", {_flop(flops.causal)} without what masks hide"
    yield f"arithmetic   {_flop(flops.palm)} a {unit}{hidden}"
    yield f"step         {found.tokens_per_step:,} {found.unit}: {_times(found.seconds_per_step)}"
    total = _flop(found.tokens * flops.palm)
    yield f"training     {count_text(found.tokens)} {found.unit}, {total}: {_times(found.hours.times(3600))}"
    used = found.efficiency
    yield f"reckoned     with {used.low:.0%} to {used.high:.0%} of {_flop(found.rate)}/s: {used.source}"
    if found.cost is not None:
        yield f"cost         {found.cost.low:,.2f} to {found.cost.high:,.2f}"
    if name in PUBLISHED:
        paper = PUBLISHED[name]
        yield f"published    {_flop(paper.flops)}: {paper.source}"
    if found.decoding is not None:
        yield _decoding(found.decoding)


def _smaller(found: TrainingCost) -> str:
    """What to try next."""
    train = found.config.train
    tried = []
    if train.recompute == "none":
        tried.append("--recompute blocks")
    if found.gpus > 1 and train.shard == "none":
        tried.append("--shard full")
    half = train.batch_tokens // 2
    tried.append(f"--train.batch_tokens {half} --train.accumulate {2 * train.accumulate}")
    return f"try {' or '.join(tried)}"


def _decoding(found: DecodingCost) -> str:
    weights, state = bytes_text(found.weights), bytes_text(found.cache_bytes)
    said = f"decoding     in 16 bits {weights} of weights a token, {state} of state for {found.tokens:,} tokens"
    if found.tokens_per_second is None or found.tokens_per_second_of_32 is None:
        return said
    rates = found.tokens_per_second, found.tokens_per_second_of_32
    return f"{said}: at most {rates[0]:,.0f} tokens/s, {rates[1]:,.0f} of 32 texts, by the memory's bandwidth"


def _flop(value: float) -> str:
    for unit, one in (("E", 1e18), ("P", 1e15), ("T", 1e12), ("G", 1e9), ("M", 1e6)):
        if value >= one:
            return f"{value / one:.3g} {unit}FLOP"
    return f"{value:.3g} FLOP"


def _times(seconds: Range) -> str:
    return f"{duration(seconds.low)} to {duration(seconds.high)}"
