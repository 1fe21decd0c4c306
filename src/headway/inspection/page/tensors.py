"""Tensors of a page: base64 of little-endian numbers, in 32, 16 or 8 bits, or one bit a truth value."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Precision = Literal["float32", "float16"]
_TYPES = {"float32": "<f4", "float16": "<f2"}


class Tensors:
    """What a page keeps, each tensor once: equal ones share a name. `precision` is that of what is computed with."""

    def __init__(self, precision: Precision) -> None:
        self.precision = precision
        self.kept: dict[str, dict[str, Any]] = {}
        self._names: dict[bytes, str] = {}

    @property
    def bytes(self) -> int:
        """Of one number that is computed with."""
        return 4 if self.precision == "float32" else 2

    def exact(self, tensor: Tensor) -> str:
        """The name of a tensor the page computes with."""
        return self._keep(self.precision, _array(tensor).astype(_TYPES[self.precision]))

    def full(self, tensor: Tensor) -> str:
        """The name of a small tensor in 32 bits whatever the page's precision: logits, scores."""
        return self._keep("float32", _array(tensor).astype("<f4"))

    def levels(self, tensor: Tensor) -> str:
        """The name of a tensor (…, D) that is only looked at: 8 bits, and a scale for each of its last rows."""
        values = _array(tensor)
        scales = np.abs(values).max(-1, keepdims=True, initial=0).astype(np.float32)
        whole = np.rint(values * (127 / np.maximum(scales, np.float32(1e-30)))).astype(np.int8)
        return self._keep("int8", whole, (scales / np.float32(127)).astype("<f4"))

    def octets(self, tensor: Tensor) -> str:
        """The name of a tensor of whole numbers from 0 to 255."""
        return self._keep("uint8", tensor.cpu().numpy().astype(np.uint8))

    def bits(self, tensor: Tensor) -> str:
        """The name of a tensor of truth values."""
        values = tensor.cpu().numpy().astype(bool)
        return self._keep("bit", np.packbits(values, bitorder="little"), shape=values.shape)

    def _keep(
        self, kind: str, data: NDArray[Any], scales: NDArray[Any] | None = None, shape: tuple[int, ...] | None = None
    ) -> str:
        shape = data.shape if shape is None else shape
        raw, scale = data.tobytes(), b"" if scales is None else scales.tobytes()
        digest = hashlib.blake2b(repr((kind, shape)).encode() + raw + scale).digest()
        if digest not in self._names:
            name = f"t{len(self.kept)}"
            self._names[digest] = name
            entry = {"type": kind, "shape": list(shape), "data": base64.b64encode(raw).decode()}
            self.kept[name] = entry if scales is None else {**entry, "scales": base64.b64encode(scale).decode()}
        return self._names[digest]


def fitting(costs: Sequence[int], room: int) -> list[int]:
    """Which of several things of these costs are kept where not all fit: as many as do, evenly spread.

    The last is always one of them.
    """
    for count in range(len(costs), 1, -1):
        chosen = sorted({round(n * (len(costs) - 1) / (count - 1)) for n in range(count)})
        if sum(costs[n] for n in chosen) <= room:
            return chosen
    return [len(costs) - 1] if costs else []


def _array(tensor: Tensor) -> NDArray[np.float32]:
    array: NDArray[np.float32] = tensor.detach().to("cpu", torch.float32).numpy()
    return array
