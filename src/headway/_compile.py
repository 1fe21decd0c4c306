"""Helpers for torch.compile and Triton that import neither."""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Callable
from typing import TypeVar

Question = TypeVar("Question", bound=Callable[..., object])


def constant(function: Question) -> Question:
    """Let torch.compile evaluate the function once and treat the result as a constant.

    The same as torch.compiler.assume_constant_result, which imports the compiler.
    """
    function._dynamo_marked_constant = True  # type: ignore[attr-defined]
    return function


@constant
def triton_missing() -> str | None:
    """Why Triton kernels are unavailable, or None."""
    return None if _found("triton") else "Triton is not installed"


@functools.cache
def _found(package: str) -> bool:
    return importlib.util.find_spec(package) is not None
