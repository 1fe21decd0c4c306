"""The estimate of a training: whether it fits, how long it takes, what it costs, and what would make it fit."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass

from headway.estimate.decoding import DecodingCost, decoding_of
from headway.estimate.flops import Flops, flops_of
from headway.estimate.formulas import Formulas, formulas_of
from headway.estimate.machines import BETWEEN_MACHINES, Efficiency, Machine
from headway.estimate.memory import MACHINE, TrainingMemory, memory_of
from headway.models.registry import build_model
from headway.runs.config import RunConfig
from headway.tasks.training_task import TrainingTask

Measure = Callable[[Machine, RunConfig, TrainingTask, float], Machine]  # a machine with its measured efficiency
# Seconds of a call of a GPU's kernel that the GPU may wait for: what small models' steps take. Assumptions.
CALL = 3e-6, 15e-6
COMPILED_CALL = 0.0, 4e-6  # fewer, or replayed as a graph
TrainingOf = Callable[[RunConfig], TrainingTask]  # the data of a config as its task reads it, or made up


@dataclass(frozen=True, slots=True)
class Range:
    """The lowest and highest of something that is not known exactly."""

    low: float
    high: float

    @property
    def middle(self) -> float:
        """Their geometric mean."""
        return math.sqrt(self.low * self.high)

    def times(self, factor: float) -> Range:
        """Both, multiplied."""
        return Range(self.low * factor, self.high * factor)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingCost:
    """What a training of a config needs on some machines of one kind."""

    config: RunConfig
    machine: Machine
    gpus: int
    unit: str  # of `tokens`: tokens, images, …
    parameters: int
    flops: Flops  # for each token
    formulas: Formulas
    memory: TrainingMemory  # of the first rank
    micro_batch: int  # targets
    tokens_per_step: int
    tokens: int  # of the whole training
    efficiency: Efficiency
    seconds_per_step: Range
    hours: Range
    cost: Range | None
    decoding: DecodingCost | None  # None: the model does not write token by token

    @property
    def rate(self) -> float:
        """Operations a second at the peak of all machines."""
        return self.gpus * self.machine.peak(self.config.train.precision)

    @property
    def fits(self) -> bool:
        """Whether the peak and a margin fit the memory of one machine."""
        return self.machine.fits(self.memory.peak)

    def to_json(self) -> dict[str, object]:
        """A flat object; of a range the middle, and its ends as `_low` and `_high`."""
        seconds, hours = self.seconds_per_step, self.hours
        gpu_hours = hours.times(self.gpus)
        found: dict[str, object] = {
            "parameters": self.parameters,
            "flops_per_token": self.flops.palm,
            "causal_flops_per_token": self.flops.causal,
            "executed_flops_per_token": self.flops.executed,
            "tokens": self.tokens,
            "tokens_per_step": self.tokens_per_step,
            "unit": self.unit,
            **asdict(self.memory),
            "peak_bytes": self.memory.peak,
            "memory_bytes": self.machine.memory,
            "fits": self.fits,
            "machine": self.machine.name,
            "gpus": self.gpus,
        }
        for name, value in (
            ("seconds_per_step", seconds), ("hours", hours), ("gpu_hours", gpu_hours), ("cost", self.cost),
        ):  # fmt: skip
            found[name] = None if value is None else value.middle
            if value is not None:
                found |= {f"{name}_low": value.low, f"{name}_high": value.high}
        found |= {f"formula_{name}": value for name, value in asdict(self.formulas).items()}
        if self.decoding is not None:
            found |= {f"decoding_{name}": value for name, value in asdict(self.decoding).items()}
        return found


def estimate(
    config: RunConfig,
    training_of: TrainingOf,
    machine: Machine,
    *,
    gpus: int = 1,
    tokens: int | None = None,
    hours: float | None = None,
    price: float | None = None,
    measure: Measure | None = None,
) -> TrainingCost:
    """What this training needs; the recipe's steps decide the tokens, unless `tokens` or `hours` does.

    `price` is of one GPU for an hour; `measure` puts measured steps in the place of a range of efficiencies. Raises
    ConfigError for what cannot be shared out or estimated.
    """
    task = training_of(config)
    memory = memory_of(config, task, gpu=machine.gpu, ranks=gpus)
    flops, micro_batch = flops_of(config, task)
    parameters = sum(each.numel() for each in build_model(config.model, device="meta").parameters())
    per_step = micro_batch * config.train.accumulate
    if measure is not None:
        machine = measure(machine, config, task, micro_batch * _work(flops))
    efficiency = machine.used(config.train.precision, compiled=config.train.compile)
    seconds = _seconds(config, machine, efficiency, gpus, flops, per_step, parameters)
    if hours is not None:
        tokens = int(3600 * hours / seconds.middle * per_step)
    elif tokens is None:
        tokens = config.train.steps * per_step
    took = seconds.times(tokens / per_step / 3600)
    return TrainingCost(
        config=config,
        machine=machine,
        gpus=gpus,
        unit=config.task.unit,
        parameters=parameters,
        flops=flops,
        formulas=formulas_of(
            config.model, config.train, parameters=parameters, context=_context(config, micro_batch), tokens=micro_batch
        ),
        memory=memory,
        micro_batch=micro_batch,
        tokens_per_step=per_step,
        tokens=tokens,
        efficiency=efficiency,
        seconds_per_step=seconds,
        hours=took,
        cost=None if price is None else took.times(gpus * price),
        decoding=decoding_of(config, machine),
    )


def seconds_of_step(config: RunConfig, task: TrainingTask, machine: Machine) -> Range:
    """The time of a step on one machine. Raises ConfigError for what cannot be estimated."""
    flops, micro_batch = flops_of(config, task)
    efficiency = machine.used(config.train.precision, compiled=config.train.compile)
    return _seconds(config, machine, efficiency, 1, flops, micro_batch * config.train.accumulate, 0)


def _seconds(
    config: RunConfig, machine: Machine, efficiency: Efficiency, gpus: int, flops: Flops, per_step: int, parameters: int
) -> Range:
    """The time of a step: arithmetic at the range of efficiency, and at worst what is exchanged beyond backward."""
    rate = gpus * machine.peak(config.train.precision)
    work, least = (per_step * count for count in (_work(flops), _work(flops) - flops.saved))
    low, high = least / (rate * efficiency.high), work / (rate * efficiency.low)
    if machine.gpu and machine.efficiency is None:
        quick, slow = COMPILED_CALL if config.train.compile else CALL
        calls = flops.kernels * max(config.train.accumulate // gpus, 1)
        low, high = max(low, calls * quick), high + calls * slow
    if gpus == 1:
        return Range(low, high)
    link = machine.link if gpus <= MACHINE else min(machine.link, BETWEEN_MACHINES)
    times = 3 if config.train.shard != "none" else 2  # weights gathered twice and gradients cut; or an all-reduce
    exchange = times * 4 * parameters * (gpus - 1) / gpus / link
    return Range(low + max(exchange - 2 / 3 * low, 0.0), high + exchange)


def _work(flops: Flops) -> float:
    """The operations of a token that efficiencies refer to, which do not count what is computed twice as useful."""
    return flops.palm + flops.executed - flops.causal


def _context(config: RunConfig, micro_batch: int) -> int:
    """The tokens of a row, where the task has such a length."""
    return int(getattr(config.task, config.task.length_key)) if config.task.length_key else micro_batch
