"""Steps on fake tensors that stand for steps on a GPU, on a machine that has none.

A fake tensor has a shape and no values. Fake CUDA tensors need a build of torch with CUDA as soon as autograd is used,
so a plan for a GPU is made on fake tensors of the CPU. Inside `as_on_a_gpu`, functions that have a kernel for GPUs
allocate what that kernel allocates. Nothing is computed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

_planning = False


def planning_gpu() -> bool:
    """Whether the tensors are fake ones that stand for a GPU's."""
    return _planning


@contextmanager
def as_on_a_gpu(planned: bool = True) -> Iterator[None]:
    """Let the fake tensors of the block stand for a GPU's, if `planned`."""
    global _planning
    before, _planning = _planning, planned
    try:
        yield
    finally:
        _planning = before
