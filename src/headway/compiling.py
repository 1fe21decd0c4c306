"""What torch.compile is told about our functions; importing this takes nothing else along."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

Question = TypeVar("Question", bound=Callable[..., object])


def constant(function: Question) -> Question:
    """Let torch.compile ask once and keep the answer.

    What torch.compiler.assume_constant_result does, which would import the compiler whenever headway starts.
    """
    function._dynamo_marked_constant = True  # type: ignore[attr-defined]
    return function
