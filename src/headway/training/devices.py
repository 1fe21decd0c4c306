"""The device of a run, and torch.compile."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from itertools import chain
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from headway.cores import cores, load
from headway.counts import counted
from headway.errors import AdviceWarning, ConfigError

M = TypeVar("M", bound=nn.Module)


def pick_device(wanted: str) -> torch.device:
    """The device of a config: "auto" takes a GPU if there is one. Raises ConfigError for "cuda" without a GPU."""
    if wanted == "cuda" and not torch.cuda.is_available():
        raise ConfigError("train.device='cuda', but torch sees no GPU; allowed here: auto, cpu")
    return torch.device("cuda" if wanted != "cpu" and torch.cuda.is_available() else "cpu")


def moved(model: M, device: torch.device) -> M:
    """The model on a device; one that is there is left alone, which torch does not do with fake tensors."""
    there = {tensor.device.type for tensor in chain(model.parameters(), model.buffers())}
    return model if there <= {device.type} else model.to(device)


def reading(*values: Tensor) -> Callable[[], list[float]]:
    """Begin to read values () -> a call that waits for them, but not for what a GPU is given to do meanwhile."""
    if values[0].device.type != "cuda":
        return lambda: [value.item() for value in values]
    found = torch.stack([value.double() for value in values]).to("cpu", non_blocking=True)
    there = torch.cuda.Event()
    there.record()

    def read() -> list[float]:
        there.synchronize()
        return found.tolist()

    return read


def described(device: torch.device) -> str:
    """A device for people: "cpu, 2 threads"."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"{device.type}, {counted(torch.get_num_threads(), 'thread')}"


def load_hint(device: torch.device) -> str:
    """What to do if others use this machine too: one thread may be faster than several. Nothing on an idle machine."""
    if device.type != "cpu" or torch.get_num_threads() == 1 or load() <= cores():
        return ""
    return (
        f"{load():.1f} on {counted(cores(), 'core')}: others use this machine too, and threads wait for each other; "
        "OMP_NUM_THREADS=1 before the command may be faster"
    )


def device_memory(device: torch.device) -> int:
    """The bytes of memory that a device has."""
    if device.type == "cuda":
        return int(torch.cuda.get_device_properties(device).total_memory)
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def peak_memory(device: torch.device) -> int:
    """The most bytes used so far: on a GPU by tensors, else by the whole process."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    import resource  # not on Windows
    import sys

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak


def compile_features(model: nn.Module, device: torch.device, *, fixed: bool, replays: bool) -> None:
    """Compile `model.features`, all but the output layer, which is fused with the loss.

    `replays`: with CUDA graphs (mode="reduce-overhead").
    """
    from headway._compile import compiler_missing

    missing = compiler_missing(device.type)
    if missing is not None:
        warnings.warn(f"train.compile: {missing}; training continues uncompiled", AdviceWarning, stacklevel=3)
        return
    how: dict[str, Any] = {"mode": "reduce-overhead"} if replays else {"dynamic": not fixed}
    model.features = torch.compile(model.features, **how)  # type: ignore[assignment, arg-type]
