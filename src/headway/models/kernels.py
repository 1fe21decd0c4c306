"""Choose the attention kernel of a model that is already built."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn


def attention_modules(model: nn.Module) -> list[nn.Module]:
    """The modules of a model that have an attention kernel to choose."""
    return [part for part in model.modules() if isinstance(getattr(part, "kernel", None), str)]


@contextmanager
def attention_kernel(model: nn.Module, name: str) -> Iterator[None]:
    """Run every attention of a model with this kernel."""
    before = {part: part.kernel for part in attention_modules(model)}
    for part in before:
        part.kernel = name  # type: ignore[assignment]
    try:
        yield
    finally:
        for part, kernel in before.items():
            part.kernel = kernel
