"""Parts of a batch on threads of their own, each with its share of the processors.

A step of a decoder is many small operations, which divide badly between threads; rows divide well. Threads only help
where Python's lock is free most of the time: a step of an 8-bit model is one call (`nn.int8.torchscript_step`).
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

LEAST = 64  # lines in a part: with fewer, two threads on one product are as quick


def parts(model: object, rows: int, width: int, device: torch.device) -> int:
    """Into how many parts it pays to divide so many rows of `width` lines each."""
    count = min(torch.get_num_threads(), rows * width // LEAST, rows)
    if count < 2 or device.type != "cpu" or not isinstance(model, nn.Module):
        return 1
    return count if steps_in_torchscript(model) else 1


def side_by_side(task: Callable[[Tensor], list[Found]], rows: int, count: int) -> list[Found]:
    """What `task` finds for each row, given the numbers of some: every `count`th, so that the parts are alike."""
    threads = torch.get_num_threads()
    pool = _pool(count, threads // count)
    try:
        under_way = [pool.submit(task, torch.arange(first, rows, count)) for first in range(count)]
        found: list[list[Found]] = [each.result() for each in under_way]
    finally:
        torch.set_num_threads(threads)  # a new thread that takes fewer says so to threads that are yet to come
    return [found[row % count][row // count] for row in range(rows)]


@cache
def _pool(count: int, each: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(count, "rows", initializer=torch.set_num_threads, initargs=(each,))
