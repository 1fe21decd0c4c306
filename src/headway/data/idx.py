"""The IDX format of MNIST: a magic number, sizes, then bytes; plain or gzipped."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from headway.data.files import read_bytes
from headway.errors import DataError
from headway.limits import expect_within

BYTE = 8  # the type code of unsigned bytes, the only supported type


def read_idx(path: Path, *, dimensions: int) -> NDArray[np.uint8]:
    """An array of bytes of `dimensions` dimensions. Raises DataError naming the file and its header."""
    data = read_bytes(path)
    head = 4 + 4 * dimensions
    if len(data) < head or data[:2] != b"\0\0":
        raise DataError(f"{path}: not an IDX file, which begins with two zero bytes and its sizes")
    if data[2] != BYTE or data[3] != dimensions:
        got = f"type 0x{data[2]:02X} in {data[3]} dimensions"
        raise DataError(f"{path}: {got}, expected unsigned bytes (0x{BYTE:02X}) in {dimensions}")
    shape = tuple(int(n) for n in np.frombuffer(data, ">u4", count=dimensions, offset=4))
    if len(data) - head != math.prod(shape):
        raise DataError(f"{path}: sizes {shape} need {math.prod(shape):,} bytes, there are {len(data) - head:,}")
    if 0 in shape[1:]:
        raise DataError(f"{path}: sizes {shape}, expected images of at least 1 × 1 pixel")
    expect_within("pixels", math.prod(shape[1:]), f"{path}: an image", DataError)
    return np.frombuffer(data, np.uint8, offset=head).reshape(shape)
