"""This machine, as an estimate sees it: how fast it multiplies matrices, and how fast a few steps of a training are."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from headway.estimate.machines import Efficiency, Machine
from headway.runs.config import RunConfig
from headway.runs.probe import StepTimes
from headway.tasks.training_task import TrainingTask
from headway.training.devices import described, device_memory, pick_device

# Of the rate of a large product on one core, measured with the presets of `headway bench estimate` (docs/results.md):
# small models spend much of a step in operations other than products.
ON_A_CPU = Efficiency(0.25, 1.0, "docs/results.md: eight presets on one core of a CPU")
MEASURED = 0.75, 1.35  # of a measured time: between these is a long training on a machine that is used likewise
SIZE = 1024  # of the matrices whose product is timed
CALLS = 8  # that are timed, apart from the first
COPIED = 1 << 28  # bytes, far beyond a processor's caches
PATIENCE = 2.0  # seconds of steps that are measured, beyond the least


def this_machine(name: str, device: str = "auto") -> Machine:
    """The device that training would use, with the rates of a large product and of a copy, as they are now."""
    place = torch.device("cpu") if name == "cpu" else pick_device(device)
    gpu = place.type == "cuda"
    return Machine(
        name=name,
        title=described(place),
        memory=device_memory(place),
        bandwidth=_bandwidth(place),
        peak_16=_rate(place, torch.bfloat16),
        peak_32=_rate(place, torch.float32),
        link=32e9,  # PCIe 4.0 with 16 lanes, each way: what connects GPUs here is not looked at
        gpu=gpu,
        efficiency=None if gpu else ON_A_CPU,
    )


def measured(machine: Machine, config: RunConfig, task: TrainingTask, work: float) -> Machine:
    """The same with its efficiency in a few steps of this training, of which a micro-batch is `work` operations."""
    with TemporaryDirectory() as folder:
        seconds = StepTimes(config, task, Path(folder), PATIENCE).seconds(1.0)
    share = work / (seconds * machine.peak(config.train.precision))
    quick, slow = MEASURED
    return replace(
        machine, efficiency=Efficiency(share / slow, share / quick, f"a step measured here: {seconds:.3g} s")
    )


def _rate(device: torch.device, kind: torch.dtype) -> float:
    """Operations a second of a square product."""
    a = torch.randn(SIZE, SIZE, device=device).to(kind)
    return 2 * SIZE**3 / _seconds(lambda: a @ a, device)


def _bandwidth(device: torch.device) -> float:
    """Bytes a second that a copy reads and writes."""
    given = torch.ones(COPIED, dtype=torch.uint8, device=device)
    made = torch.empty_like(given)
    return 2 * COPIED / _seconds(lambda: made.copy_(given), device)


def _seconds(call: Callable[[], object], device: torch.device) -> float:
    """The least seconds of a call on an idle machine.

    On a CPU one thread computes, whose time counts: the clock also counts what others compute on this machine.
    """
    threads = torch.get_num_threads()
    clock = time.perf_counter if device.type == "cuda" else time.thread_time
    if device.type == "cpu":
        torch.set_num_threads(1)
    try:
        taken: list[float] = []
        while len(taken) < CALLS:
            begun = clock()
            call()
            if device.type == "cuda":
                torch.cuda.synchronize(device)
            taken.append(clock() - begun)
    finally:
        torch.set_num_threads(threads)
    return min(taken[1:]) / (threads if device.type == "cpu" else 1)
