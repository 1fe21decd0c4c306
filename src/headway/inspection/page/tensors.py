"""Tensors of a page: base64 of little-endian numbers.

float32, or int16 and int8 with a scale per row, which for vectors is more exact than float16 (with float16 the weights
of a trained model would be off by a thousandth); booleans take one bit.
"""

from __future__ import annotations

import base64
import hashlib
import math
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Precision = Literal["float32", "int16"]
SAMPLED = 256  # elements of each displayed tensor that are kept in float32 for the badge to compare
BASE64 = 4 / 3  # characters for each byte
OVERHEAD = 64  # characters of JSON around an entry


class PageTensors:
    """The tensors of a page, equal ones stored once. `precision` is that of tensors the page computes with."""

    def __init__(self, precision: Precision) -> None:
        self.precision = precision
        self.entries: dict[str, dict[str, Any]] = {}
        self.checks: list[dict[str, Any]] = []  # of displayed tensors: some elements as PyTorch computed them
        self.size = 0  # characters of all entries
        self._names: dict[bytes, str] = {}

    @property
    def item_size(self) -> int:
        """Bytes of one element of a tensor the page computes with."""
        return 4 if self.precision == "float32" else 2

    def exact_size(self, *shape: int) -> int:
        """Characters that a tensor of this shape takes if the page computes with it."""
        return _size(shape, self.item_size, scaled=self.precision != "float32")

    def displayed_size(self, *shape: int) -> int:
        """Characters that a displayed tensor of this shape takes."""
        exact = self.precision == "float32"
        return _size(shape, 4 if exact else 1, scaled=not exact) + _size((SAMPLED,), 4)

    def exact(self, tensor: Tensor) -> str:
        """Store a tensor the page computes with; returns its name."""
        return self.full(tensor) if self.precision == "float32" else self._scaled("int16", tensor)

    def full(self, tensor: Tensor) -> str:
        """Store a small tensor (logits, scores) in float32 whatever the page's precision."""
        return self._keep("float32", _array(tensor).astype("<f4"))

    def displayed(self, tensor: Tensor) -> str:
        """Store a tensor (…, D) that is only displayed: as it is, or in int8 where the page is large.

        Every n-th element is kept in float32 as well: the badge compares what is displayed with it.
        """
        name = self.full(tensor) if self.precision == "float32" else self.levels(tensor)
        every = max(1, -(-tensor.numel() // SAMPLED))
        sample = self.full(tensor.detach().reshape(-1)[::every])
        self.checks.append({"tensor": name, "every": every, "values": sample})
        return name

    def levels(self, tensor: Tensor) -> str:
        """Store a tensor (…, D) in int8."""
        return self._scaled("int8", tensor)

    def _scaled(self, kind: Literal["int16", "int8"], tensor: Tensor) -> str:
        """Store integers with a scale for each row of the last dimension."""
        values, most = _array(tensor), np.iinfo(kind).max
        scales = np.abs(values).max(-1, keepdims=True, initial=0).astype(np.float32)
        whole = np.rint(values * (most / np.maximum(scales, np.float32(1e-30)))).astype(
            np.dtype(kind).newbyteorder("<")
        )
        return self._keep(kind, whole, (scales / np.float32(most)).astype("<f4"))

    def octets(self, tensor: Tensor) -> str:
        """Store a tensor of integers from 0 to 255."""
        return self._keep("uint8", tensor.cpu().numpy().astype(np.uint8))

    def bits(self, tensor: Tensor) -> str:
        """Store a tensor of booleans."""
        values = tensor.cpu().numpy().astype(bool)
        return self._keep("bit", np.packbits(values, bitorder="little"), shape=values.shape)

    def _keep(
        self, kind: str, data: NDArray[Any], scales: NDArray[Any] | None = None, shape: tuple[int, ...] | None = None
    ) -> str:
        shape = data.shape if shape is None else shape
        raw, scale = data.tobytes(), b"" if scales is None else scales.tobytes()
        digest = hashlib.blake2b(repr((kind, shape)).encode() + raw + scale).digest()
        if digest not in self._names:
            name = f"t{len(self.entries)}"
            self._names[digest] = name
            entry = {"type": kind, "shape": list(shape), "data": base64.b64encode(raw).decode()}
            self.entries[name] = entry if scales is None else {**entry, "scales": base64.b64encode(scale).decode()}
            self.size += sum(len(str(part)) for part in self.entries[name].values()) + OVERHEAD
        return self._names[digest]


def _size(shape: Sequence[int], item_size: int, *, scaled: bool = False) -> int:
    """Characters of a tensor's entry: its elements and, if scaled, a float32 for each row of the last dimension."""
    count = math.prod(shape)
    scales = 4 * (count // max(shape[-1], 1)) if scaled else 0
    return round(BASE64 * (count * item_size + scales)) + 2 * OVERHEAD


def indices_that_fit(costs: Sequence[int], room: int) -> list[int]:
    """Indices of as many items of these costs as fit, evenly spread, with the last one; none if it does not fit."""
    for count in range(len(costs), 1, -1):
        chosen = sorted({round(n * (len(costs) - 1) / (count - 1)) for n in range(count)})
        if sum(costs[n] for n in chosen) <= room:
            return chosen
    return [len(costs) - 1] if costs and costs[-1] <= room else []


def _array(tensor: Tensor) -> NDArray[np.float32]:
    array: NDArray[np.float32] = tensor.detach().to("cpu", torch.float32).numpy()
    return array
