"""The most memory a process held, and how a figure grows."""

from __future__ import annotations

import math
import re
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


def reset_peak() -> float:
    """Let the kernel forget the process's highest memory; what it has now, in bytes."""
    Path("/proc/self/clear_refs").write_text("5")
    return _status("VmRSS")


def peak() -> float:
    """The most bytes the process held since `reset_peak`."""
    return _status("VmHWM")


def _status(key: str) -> float:
    found = re.search(rf"{key}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return 1024 * float(found[1]) if found else 0.0


def slope(sizes: Sequence[int], values: Sequence[float]) -> float:
    """The exponent of the size, least squares through the logarithms: 1 is linear, 2 quadratic."""
    x, y = [math.log(n) for n in sizes], [math.log(max(v, 1e-9)) for v in values]
    middle, height = sum(x) / len(x), sum(y) / len(y)
    return sum((a - middle) * (b - height) for a, b in zip(x, y, strict=True)) / sum((a - middle) ** 2 for a in x)


class LiveBytes(TorchDispatchMode):
    """Counts the bytes of tensors that are made while it is open: `now` alive, `most` at once.

    Exact, unlike what a process holds. What a kernel takes for itself and gives back before it returns is not seen.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.now = self.most = 0
        self._known: dict[int, weakref.ref[Any]] = {}

    def __torch_dispatch__(
        self,
        call: Callable[..., Any],
        types: object,
        arguments: tuple[Any, ...] = (),
        named: dict[str, Any] | None = None,
    ) -> Any:
        before = {id(leaf.untyped_storage()) for leaf in tree_leaves((arguments, named)) if isinstance(leaf, Tensor)}
        out = call(*arguments, **(named or {}))
        for leaf in tree_leaves(out):
            if isinstance(leaf, Tensor):
                storage = leaf.untyped_storage()
                if id(storage) not in before and id(storage) not in self._known:
                    self._add(storage)
        return out

    def _add(self, storage: torch.UntypedStorage) -> None:
        key, size = id(storage), storage.nbytes()

        def gone(_: object) -> None:
            self.now -= size
            del self._known[key]

        self._known[key] = weakref.ref(storage, gone)
        self.now += size
        self.most = max(self.most, self.now)
