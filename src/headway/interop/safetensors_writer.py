"""Write a safetensors file tensor by tensor; the bytes are those the library writes of all tensors at once."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping

import torch
from torch import Tensor

from headway.interop.safetensors_header import DTYPES

CHUNK = 2**20  # bytes in one write: eight times as many can take the system twice as long
# Bytes copied at once: torch transposes a matrix fast only as a whole, and malloc reuses no larger blocks.
COPIED = 24 * CHUNK
_NAMES = {dtype: name for name, dtype in DTYPES.items()}
Shapes = Mapping[str, tuple[int, ...]]


def header_of(shapes: Shapes, dtype: torch.dtype, metadata: Mapping[str, str] | None = None) -> bytes:
    """Length and header of a file of these tensors, sorted by name, all of one dtype."""
    header: dict[str, object] = {"__metadata__": dict(metadata)} if metadata else {}
    at = 0
    for name in sorted(shapes):
        end = at + math.prod(shapes[name]) * dtype.itemsize
        header[name] = {"dtype": _NAMES[dtype], "shape": list(shapes[name]), "data_offsets": [at, end]}
        at = end
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text


def chunks_of(
    shapes: Shapes,
    dtype: torch.dtype,
    tensor: Callable[[str], Tensor],
    *,
    metadata: Mapping[str, str] | None = None,
) -> Iterator[memoryview]:
    """The bytes of the file; `tensor` is called for one name at a time, in the order of the file."""
    yield memoryview(header_of(shapes, dtype, metadata))
    for name in sorted(shapes):
        ready = tensor(name)
        assert tuple(ready.shape) == shapes[name]
        for block in _blocks(ready, dtype):
            view = memoryview(block.view(-1).view(torch.uint8).numpy())  # type: ignore[arg-type]
            for begin in range(0, len(view), CHUNK):
                yield view[begin : begin + CHUNK]


def _blocks(tensor: Tensor, dtype: torch.dtype) -> Iterator[Tensor]:
    """The tensor itself if it is contiguous, else a few rows at a time: small copies reuse their memory."""
    if (tensor.is_contiguous() and tensor.dtype == dtype) or not tensor.ndim:
        yield tensor.to(dtype).contiguous()
        return
    rows = max(COPIED // max(math.prod(tensor.shape[1:]) * dtype.itemsize, 1), 1)
    for begin in range(0, len(tensor), rows):
        yield tensor[begin : begin + rows].to(dtype).contiguous()
