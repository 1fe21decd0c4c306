"""Searching parts of a batch in threads, each with its share of the CPU's cores.

A decoder step is many small operations, which parallelise badly inside an operator; rows parallelise well. Threads
help only where Python's lock is mostly free: a step of an int8 model is one TorchScript call (nn.int8).
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import TypeVar

import torch
from torch import Tensor, nn

from headway.nn.int8.torchscript_step import steps_in_torchscript

Found = TypeVar("Found")

MIN_HYPOTHESES = 64  # per worker: with fewer, two threads inside one matrix product are as fast


def worker_count(model: object, rows: int, width: int, device: torch.device) -> int:
    """The number of threads among which to divide `rows` searches of `width` hypotheses each; 1: do not divide."""
    count = min(torch.get_num_threads(), rows * width // MIN_HYPOTHESES, rows)
    if count < 2 or device.type != "cpu" or not isinstance(model, nn.Module):
        return 1
    return count if steps_in_torchscript(model) else 1


def run_in_parallel(task: Callable[[Tensor], list[Found]], rows: int, count: int) -> list[Found]:
    """The result of `task` for each row; each of `count` workers is given every `count`th row, to balance the load."""
    threads = torch.get_num_threads()
    pool = _pool(count, threads // count)
    try:
        futures = [pool.submit(task, torch.arange(first, rows, count)) for first in range(count)]
        found: list[list[Found]] = [future.result() for future in futures]
    finally:
        torch.set_num_threads(threads)  # a worker's set_num_threads also sets the default of threads started later
    return [found[row % count][row // count] for row in range(rows)]


@cache
def _pool(count: int, threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(count, "rows", initializer=torch.set_num_threads, initargs=(threads,))
