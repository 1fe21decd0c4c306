"""The most memory that a training step holds at once, by part: torch's memory tracker over a step on fake tensors."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from importlib import import_module
from typing import Any

import torch
from torch import nn

from headway.errors import ConfigError
from headway.estimate.fake_step import FakeStep, fake_step
from headway.runs.config import RunConfig
from headway.tasks.training_task import TrainingTask
from headway.training.ranks import ALONE, Alone, RankPlace, Ranks

# Which part a kind of tensor belongs to, by the names that torch's trackers have for kinds.
PARTS = {
    "Parameter": "weights", "Sharded Param": "weights", "Unsharded Param": "gathered", "All Gather": "gathered",
    "Reduce Scatter": "gathered", "Gradient": "gradients", "Sharded Grad": "gradients", "Unsharded Grad": "gathered",
    "Optstate": "optimiser", "OptState": "optimiser", "Activation": "activations", "Temp": "temporaries",
    "Buffer": "other", "Other": "other", "Inputs": "other",
}  # fmt: skip
MICRO_BATCHES = 2  # that show the peak where gradients are added as they come: the second finds those of the first
MACHINE = 8  # GPUs of a machine, for `train.shard node`


@dataclass(frozen=True, slots=True)
class TrainingMemory:
    """Bytes of tensors of one rank at the moment when there are most, by part."""

    weights: int
    gradients: int
    optimiser: int
    activations: int  # made by the forward pass, and kept for the backward pass
    temporaries: int  # made by the backward pass
    gathered: int  # of shards: whole weights and gradients of the blocks that compute
    other: int  # buffers, the batch, the running mean of the weights

    @property
    def peak(self) -> int:
        """All parts."""
        return sum(getattr(self, part.name) for part in fields(self))


def memory_of(
    config: RunConfig, task: TrainingTask, *, gpu: bool = False, ranks: int = 1, machine: int = MACHINE
) -> TrainingMemory:
    """What the first of so many ranks holds at most in a training step; ranks of `machine` GPUs each.

    Raises ConfigError for what cannot be shared out or estimated, also for a torch without the tracker.
    """
    with _ranks(config, ranks, machine) as place:
        exact = config.train.exact_on("cpu") and not gpu
        tried = None if exact else min(MICRO_BATCHES, max(config.train.accumulate // ranks, 1))
        with fake_step(config, task, gpu=gpu, ranks=place, micro_batches=tried) as step:
            return _tracked(step, sharded=step.trainer.sharded)


class _Root(nn.Module):
    """A function as the module that the tracker takes for the root: inside it, modules may be called repeatedly."""

    def __init__(self, call: Callable[[], object]) -> None:
        super().__init__()
        self.call = call

    def forward(self) -> object:
        """What the function returns."""
        return self.call()


def live_bytes(make: Callable[[], object]) -> int:
    """Bytes of the tensors that are alive because of what `make` returns, without parameters."""
    tracker = _tracker("mem_tracker", "MemTracker")()
    root = _Root(make)
    with tracker:
        made = root()
        current = tracker.get_tracker_snapshot("current").values()
        found = sum(count for each in current for name, count in each.items() if _part(name) == "activations")
    del made
    return int(found)


def _tracked(step: FakeStep, *, sharded: bool) -> TrainingMemory:
    trainer = step.trainer
    tensors = [tensor for batch in step.batches for tensor in (*batch.inputs, batch.targets) if tensor is not None]
    tensors += trainer.ema.values()
    if sharded:
        tracker: Any = _tracker("fsdp2_mem_tracker", "FSDPMemTracker")(trainer.model, trainer.optimisers[0])
        tracker.track_inputs(tuple(tensors))
    else:
        tracker = _tracker("mem_tracker", "MemTracker")()
        tracker.track_external(trainer.model, *trainer.optimisers, *tensors)

    def begin() -> None:
        tracker.reset_mod_stats()
        if sharded:  # called by another method than forward, so that the tracker does not see it begin
            tracker.memory_tracking[trainer.model] = _tracker("fsdp2_mem_tracker", "_FSDPModMemStats")("model")

    with tracker:
        step.take(before=begin)
    parts = dict.fromkeys((part.name for part in fields(TrainingMemory)), 0)
    for snapshot in tracker.get_tracker_snapshot("peak").values():
        for name, count in snapshot.items():
            if name != "Total":
                parts[_part(name)] += count
    return TrainingMemory(**parts)


def _part(kind: Any) -> str:
    """The part that a kind of the tracker's belongs to; of the total, nothing."""
    return PARTS.get(getattr(kind, "value", kind), "")


def _tracker(module: str, name: str) -> Any:
    """A private class of torch. Raises ConfigError if this torch has it elsewhere."""
    try:
        return getattr(import_module(f"torch.distributed._tools.{module}"), name)
    except (ImportError, AttributeError) as error:
        raise ConfigError(
            f"torch {torch.__version__} has no torch.distributed._tools.{module}.{name}, which counts memory: "
            "headway estimate was tested with torch 2.11 and 2.13"
        ) from error


@contextlib.contextmanager
def _ranks(config: RunConfig, count: int, machine: int) -> Iterator[Alone]:
    """The first of so many ranks of torch's fake process group, which sends nothing."""
    if count == 1:
        yield ALONE
        return
    import torch.distributed as dist
    from torch.testing._internal.distributed.fake_pg import FakeStore

    beside = min(machine, count)
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=count)
    try:
        yield Ranks(RankPlace(0, count, 0, beside, 0), dist.HashStore())  # type: ignore[attr-defined]
    finally:
        dist.destroy_process_group()
