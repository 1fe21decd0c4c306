"""Damage to binary files that knows their formats: PNG, JPEG, WAV, IDX, gzip, npz, parquet and safetensors.

Checksums and lengths are made right again where a format has them, so that the lie reaches the code behind the check.
"""

from __future__ import annotations

import gzip
import io
import json
import struct
import zipfile
import zlib
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from random import Random
from typing import Any

from headway.documents import parse_json
from headway.reliability.damage import damaged
from headway.reliability.document_damage import HOSTILE_JSON, ODD_VALUES

SIZES = (0, 1, 2, 3, 7, 255, 256, 65535, 65536, 2**24, 2**31 - 1, 2**31, 2**32 - 1)  # of a field of 32 bits


def damage_png(data: bytes, chance: Random) -> bytes:
    """Other sizes, depths and chunks than the pixels have, with right checksums."""
    chunks = list(_png_chunks(data))
    kind = chance.randrange(7)
    at = chance.randrange(len(chunks))
    name, body = chunks[at]
    if kind in (0, 1):  # the header: width, height, depth, colour, compression, filter, interlace
        fields = list(struct.unpack(">IIBBBBB", chunks[0][1][:13]))
        which = chance.randrange(7)
        fields[which] = chance.choice(SIZES) if which < 2 else chance.randrange(256)
        chunks[0] = (chunks[0][0], struct.pack(">IIBBBBB", *fields))
    elif kind == 2:
        del chunks[at]
    elif kind == 3:
        chunks.insert(chance.randrange(len(chunks) + 1), (name, body))
    elif kind == 4:
        chunks[at] = (name, damaged(body, chance)[1])
    elif kind == 5:  # text that is larger than it looks, or a comment from which one could read code
        bomb = _deflated(b"\0", chance.choice((10**6, 5 * 10**7)))
        more = chance.choice(((b"zTXt", b"a\0\0" + bomb), (b"iCCP", b"a\0\0" + bomb), (b"tEXt", b"a\0<script>")))
        chunks.insert(1, more)
    else:  # pixels: too few, too many, or none that decompress
        pixels = chance.choice((zlib.compress(chance.randbytes(100)), *(_deflated(b"\0", n) for n in (0, 10, 10**7))))
        chunks = [(b"IDAT", pixels) if each[0] == b"IDAT" else each for each in chunks]
    return data[:8] + b"".join(
        len(body).to_bytes(4, "big") + name + body + zlib.crc32(name + body).to_bytes(4, "big") for name, body in chunks
    )


@cache
def _deflated(piece: bytes, count: int) -> bytes:
    """A piece repeated `count` times, compressed."""
    return zlib.compress(piece * count, 1)


@cache
def _gzipped(piece: bytes, count: int) -> bytes:
    return gzip.compress(piece * count, 1, mtime=0)  # without a time: the same bytes each time


def _png_chunks(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    at = 8
    while at + 12 <= len(data):
        size = int.from_bytes(data[at : at + 4], "big")
        yield data[at + 4 : at + 8], data[at + 8 : at + 8 + size]
        at += 12 + size


def damage_jpeg(data: bytes, chance: Random) -> bytes:
    """Other sizes, lengths and segments than the image has."""
    starts = [at for at in range(len(data) - 1) if data[at] == 0xFF and data[at + 1] not in (0, 0xFF)]
    at = chance.choice(starts)
    found = bytearray(data)
    kind = chance.randrange(4)
    if kind == 0:  # the kind of a segment
        found[at + 1] = chance.choice((0xC0, 0xC2, 0xC4, 0xD8, 0xD9, 0xDA, 0xDB, 0xE1, 0xFE, 0x01, 0xFF))
    elif kind == 1:  # its length
        found[at + 2 : at + 4] = chance.choice((0, 1, 2, 3, 0xFFFF, chance.randrange(65536))).to_bytes(2, "big")
    elif kind == 2:  # the size of the image
        frames = [each for each in starts if data[each + 1] in (0xC0, 0xC1, 0xC2)]
        for each in frames:
            size = (chance.choice((0, 1, 65535, chance.randrange(65536))) for _ in range(2))
            found[each + 5 : each + 9] = b"".join(number.to_bytes(2, "big") for number in size)
    else:  # EXIF with an undefined orientation
        exif = b"Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01" + chance.randbytes(2) + bytes(6)
        found[2:2] = b"\xff\xe1" + (len(exif) + 2).to_bytes(2, "big") + exif
    return bytes(found)


def damage_wav(data: bytes, chance: Random) -> bytes:
    """Other formats, rates, channels and lengths than the samples have."""
    found = bytearray(data)
    kind = chance.randrange(4)
    if kind == 0:
        at = chance.choice((4, 16, 40))
        found[at : at + 4] = chance.choice(SIZES).to_bytes(4, "little")
    elif kind == 1:  # format, channels, rate, bytes a second, bytes a frame, bits
        at, size = chance.choice(((20, 2), (22, 2), (24, 4), (28, 4), (32, 2), (34, 2)))
        found[at : at + size] = (chance.choice(SIZES) % 2 ** (8 * size)).to_bytes(size, "little")
    elif kind == 2:  # samples as floats that are NaN, infinite or huge
        found[20:22], found[34:36] = (3).to_bytes(2, "little"), (32).to_bytes(2, "little")
        special = struct.pack("<f", chance.choice((float("nan"), float("inf"), 1e38)))
        found[44:48] = special
    else:
        name = chance.choice((b"data", b"fmt ", b"LIST", b"\0\0\0\0"))
        found[36:36] = name + chance.choice((0, 1, 3, 2**32 - 1)).to_bytes(4, "little")
    return bytes(found)


def damage_idx(data: bytes, chance: Random) -> bytes:
    """Another type, number of dimensions or size than the bytes have."""
    found = bytearray(data)
    if chance.random() < 0.4:
        found[chance.randrange(4)] = chance.randrange(256)
    else:
        at = 4 + 4 * chance.randrange(max(data[3], 1))
        found[at : at + 4] = chance.choice(SIZES).to_bytes(4, "big")
    return bytes(found)


def damage_gzip(data: bytes, chance: Random) -> bytes:
    """Another header or checksum, several members, or far more inside than the size lets one think."""
    kind = chance.randrange(4)
    if kind == 0:
        return data + chance.choice((data, b"\0" * 20, b"x", _gzipped(b"\n", 10**6)))
    if kind == 1:
        return _gzipped(chance.choice((b"x", b"\n", b"a ", b"\0")), chance.choice((10**6, 10**7)))
    if kind == 2:
        return data[:3] + bytes([chance.randrange(256)]) + data[4:]
    return data[:-8] + chance.randbytes(8)


def damage_npz(data: bytes, chance: Random) -> bytes:
    """Arrays with other names, headers, values or sizes than they should have, in a valid archive."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        arrays = {name: archive.read(name) for name in archive.namelist()}
    name, kind = chance.choice(sorted(arrays)), chance.randrange(7)
    body = arrays[name]
    if kind == 0:
        arrays[chance.choice(("z.npy", "", "../x.npy", "x\n.npy", name.upper(), "x" * 300))] = arrays.pop(name)
    elif kind == 1:
        del arrays[name]
    elif kind == 2:  # another shape or type in the header
        old, new = chance.choice(
            ((b"<f4", b"|O8"), (b"<i8", b"|O8"), (b"(", b"(-1, "), (b"(", b"(9, "), (b"<f4", b"<f8"), (b"<i8", b"<f8"))
        )
        arrays[name] = body.replace(old, new, 1)
    elif kind == 3:
        arrays[name] = body.replace(b"(", b"(" + str(chance.choice((*SIZES, 2**63, 10**40))).encode() + b", ", 1)
    elif kind == 4:  # values that are NaN, infinite, huge or negative
        piece = chance.choice((b"\0\0\xc0\x7f", b"\0\0\x80\x7f", b"\xff" * 8, b"\0" * 8, b"\xff\xff\x7f\x7f"))
        at = chance.randrange(128, len(body)) // 8 * 8
        arrays[name] = body[:at] + piece + body[at + len(piece) :]
    elif kind == 5:
        arrays[name] = damaged(body, chance)[1]
    else:  # much larger than it looks
        arrays[name] = body + b"\0" * chance.choice((10**6, 5 * 10**7))
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for each, content in arrays.items():
            archive.writestr(zipfile.ZipInfo(each), content, zipfile.ZIP_DEFLATED)
    return made.getvalue()


def damage_parquet(data: bytes, chance: Random) -> bytes:
    """The table with another column, type, null or size, or with a footer that lies."""
    pyarrow: Any = import_module("pyarrow")
    parquet: Any = import_module("pyarrow.parquet")
    if chance.random() < 0.3:
        return data[:-8] + chance.choice(SIZES).to_bytes(4, "little") + data[-4:]
    table = parquet.read_table(io.BytesIO(data))
    columns = {name: table.column(name).to_pylist() for name in table.column_names}
    name = chance.choice(table.column_names)
    kind = chance.randrange(7)
    if kind == 0:
        columns[chance.choice(("x", "", name.upper(), "\x1b[31m"))] = columns.pop(name)
    elif kind == 1:
        columns[name][chance.randrange(len(columns[name]))] = None
    elif kind == 2:
        columns[name] = [chance.choice((1, 1.5, True, b"\xff", [1], {"a": 1}, {"bytes": b"x"}, None))] * table.num_rows
    elif kind == 3:
        columns = {each: values[:0] for each, values in columns.items()}
    elif kind == 4 and isinstance(columns[name][0], str):
        size, count = chance.choice(((10**6, 2), (10**6, 200), (10**3, 10**4), (1, 10**5)))
        columns = {each: ["x" * size] * count for each in columns}
    elif kind == 5 and isinstance(columns[name][0], str):
        columns[name][0] = chance.choice(("\0", "a\nb", "\u202e", "", " ", "x" * 10**6, "\x1b]0;x\x07"))
    else:
        columns[name] = columns[name][::-1]
    made = io.BytesIO()
    try:
        parquet.write_table(pyarrow.table(columns), made)
    except (pyarrow.ArrowException, TypeError, ValueError):
        return damaged(data, chance)[1]
    return made.getvalue()


def damage_safetensors(data: bytes, chance: Random) -> bytes:
    """Another length, header, dtype, shape or place of a tensor than the bytes have."""
    header, body = safetensors_parts(data)
    names = [key for key in header if key != "__metadata__"]
    name = chance.choice(names)
    entry, kind = header[name], chance.randrange(8)
    if kind == 0:
        return chance.choice((*SIZES, 2**63, 2**64 - 1, len(data), 99_999_999)).to_bytes(8, "little") + data[8:]
    if kind == 1:
        entry["dtype"] = chance.choice(("F16", "F64", "I32", "F8_E5M2", "C64", "U4", "f32", "BOOL", *ODD_VALUES))
    elif kind == 2:
        values = list(entry["shape"]) or [1]
        at = chance.randrange(len(values))
        values[at] = chance.choice((values[at] + 1, -values[at], 2 ** chance.randint(8, 80), *ODD_VALUES))
        entry["shape"] = chance.choice((values, values, values[::-1], values * 2, values[:-1], [2**62] * 9))
    elif kind == 3:
        begin, end = entry["data_offsets"]
        entry["data_offsets"] = chance.choice(
            ([begin, end + 4], [end, begin], [0, 2**63], [-1, end], [begin], [begin, end, end], *ODD_VALUES)
        )
    elif kind == 4:
        other = chance.choice(names)
        entry["data_offsets"] = header[other]["data_offsets"]
    elif kind == 5:
        header[chance.choice(("", "x" * 3000, "a\nb", "\u202e", f"{name}.", "../../x"))] = header.pop(name)
    elif kind == 6:
        return with_header(chance.choice(HOSTILE_JSON), body)
    else:
        del header[name]
    return with_header(header, body)


def safetensors_parts(data: bytes) -> tuple[dict[str, Any], bytes]:
    """The header of a safetensors file, and the bytes of its tensors."""
    length = int.from_bytes(data[:8], "little")
    return parse_json(data[8 : 8 + length], "header"), data[8 + length :]


def with_header(header: object, body: bytes) -> bytes:
    """A safetensors file of a header, or the bytes of one, and the bytes of tensors."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + body
