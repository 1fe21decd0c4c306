"""NumPy's .npz files: arrays of numbers or text by name. Nothing in them is run, and every size is checked."""

from __future__ import annotations

import io
import math
import sys
import zipfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from headway.data.files import ANY_RATIO, listed, read_bytes
from headway.errors import DataError, one_line, shown
from headway.limits import expect_within

ENDING = ".npy"  # of the name of each array in the archive
KINDS = "biufU"  # truth values, whole numbers, floating-point numbers, text
Array = NDArray[Any]


def read_npz(path: Path, known: tuple[str, ...]) -> dict[str, Array]:
    """The arrays of a file by name. Raises DataError for a file that is damaged or has an array that is not `known`."""
    data = read_bytes(path)
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            infos = archive.infolist()
            expect_within("list", len(infos), f"{path}: arrays", DataError)
            _expect_known(path, [info.filename.removesuffix(ENDING) for info in infos], known)
            return {info.filename.removesuffix(ENDING): _array(path, archive, info, len(data)) for info in infos}
    except DataError:
        raise
    except Exception as error:  # zipfile, zlib and numpy's parser of headers raise a dozen kinds
        raise DataError(
            f"{path}: not a .npz file, or a damaged one ({one_line(error) or type(error).__name__})"
        ) from None


class ArrayHeader(NamedTuple):
    """The shape and the type of an array."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]


def read_headers(path: Path) -> dict[str, ArrayHeader]:
    """What the arrays of a file are, without reading them; {} for what is not an .npz file."""
    try:
        with zipfile.ZipFile(path) as archive:
            found = {}
            for info in archive.infolist():
                with archive.open(info) as stream:
                    version = npy.read_magic(stream)
                    read_header = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
                    shape, _, dtype = read_header(stream)
                    found[info.filename.removesuffix(ENDING)] = ArrayHeader(shape, dtype)
            return found
    except Exception:  # as above; `read_npz` says what is wrong
        return {}


def _expect_known(path: Path, names: list[str], known: tuple[str, ...]) -> None:
    for name in names:
        if name not in known:
            raise DataError(f"{path}: unknown array {shown(name)}, allowed: {', '.join(known)}")
    if len(set(names)) != len(names):
        raise DataError(f"{path}: an array twice: {listed(names)}")


def _array(path: Path, archive: zipfile.ZipFile, info: zipfile.ZipInfo, compressed: int) -> Array:
    """One array, whose header must need as many bytes as there are."""
    where = f"{path}: {info.filename.removesuffix(ENDING)}"
    expect_within("file-bytes", info.file_size, where, DataError)
    if info.file_size > ANY_RATIO:
        expect_within("compression-ratio", math.ceil(info.file_size / max(compressed, 1)), where, DataError)
    body = archive.read(info)
    stream = io.BytesIO(body)
    version = npy.read_magic(stream)
    if version not in ((1, 0), (2, 0)):
        raise DataError(f"{where}: version {version} of the .npy format, allowed: (1, 0) and (2, 0)")
    read_header = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    shape, by_columns, dtype = read_header(stream)
    if dtype.kind not in KINDS:
        held = "Python objects, as rows of unequal length become" if dtype.kind == "O" else f"{dtype}"
        raise DataError(f"{where}: holds {held}; expected an array of numbers or text: pad rows to one length")
    start, needed = stream.tell(), math.prod(shape) * dtype.itemsize
    if len(body) - start != needed or any(size < 0 for size in shape):
        raise DataError(f"{where}: shape {shape} needs {needed:,} bytes, there are {len(body) - start:,}")
    if not dtype.itemsize or not needed:
        return np.zeros(shape, dtype)
    if dtype.kind == "U":  # numpy believes every code point, and fails when one becomes a str
        largest = int(np.frombuffer(body, np.dtype(np.uint32).newbyteorder(dtype.byteorder), offset=start).max())
        if largest > sys.maxunicode:
            raise DataError(f"{where}: text with the code point {largest:#x}, largest allowed: {sys.maxunicode:#x}")
    return np.frombuffer(body, dtype, offset=start).reshape(shape, order="F" if by_columns else "C")
