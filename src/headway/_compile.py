"""What torch.compile is told about our functions, and if there is Triton; importing this takes nothing else along."""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Callable
from typing import TypeVar

Question = TypeVar("Question", bound=Callable[..., object])


def constant(function: Question) -> Question:
    """Let torch.compile ask once and keep the answer.

    What torch.compiler.assume_constant_result does, which would import the compiler whenever headway starts.
    """
    function._dynamo_marked_constant = True  # type: ignore[attr-defined]
    return function


@constant
def triton_missing() -> str | None:
    """Why there are no Triton kernels here, or None."""
    return None if _found("triton") else "Triton is not installed"


@functools.cache
def _found(package: str) -> bool:
    return importlib.util.find_spec(package) is not None
