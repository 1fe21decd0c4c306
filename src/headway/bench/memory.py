"""Measuring the memory of live tensors."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class LiveBytes(TorchDispatchMode):
    """Counts the bytes of tensors allocated while it is active: `now` live, `peak` at once.

    Exact, unlike the memory of the process, but without temporary buffers inside kernels.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.now = self.peak = 0
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
        self.peak = max(self.peak, self.now)
