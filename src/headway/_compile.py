"""Helpers for torch.compile, and whether a compiler or Triton is installed; importing this imports nothing of torch."""

from __future__ import annotations

import functools
import importlib.util
import shutil
from collections.abc import Callable
from typing import TypeVar

Function = TypeVar("Function", bound=Callable[..., object])


def constant(function: Function) -> Function:
    """Let torch.compile evaluate the function once, while tracing, and use the result as a constant.

    The same as torch.compiler.assume_constant_result, which would import the compiler whenever headway starts.
    """
    function._dynamo_marked_constant = True  # type: ignore[attr-defined]
    return function


@constant
def triton_missing() -> str | None:
    """Why Triton kernels cannot run here, or None."""
    return None if _found("triton") else "Triton is not installed"


def compiler_missing(device: str) -> str | None:
    """Why torch.compile cannot generate code for this type of device ("cpu", "cuda"), or None."""
    if device == "cuda":
        from torch.utils._triton import has_triton

        return None if has_triton() else "triton is not installed"
    return None if shutil.which("g++") or shutil.which("clang++") else "no C++ compiler (g++) is installed"


@functools.cache
def _found(package: str) -> bool:
    return importlib.util.find_spec(package) is not None
