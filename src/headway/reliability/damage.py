"""Damage to the bytes of a file, as disks, transfers and editors do it: functions of bytes and a random generator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

Damage = Callable[[bytes, Random], bytes]
PAGE = 4096  # what a file system writes at once, and loses at once
SEQUENCES: tuple[bytes, ...] = (
    b"\0", b"\xff", b"\xfe\xff", b"\xef\xbb\xbf", b"\xed\xa0\x80", b"\xc0\xaf", b"\xf4\x90\x80\x80", b"\r", b"\n",
    b"\t",
    b'"', b"\\", b"{", b"}", b"[", b"]", b":", b",", b"-", b"0", b"9" * 30, b"e999", b"\x1b]0;x\x07", b"\x1b[31m",
    b"%s",
    b"\xe2\x80\xae", b"\xe2\x80\xa8", b" " * 70,
)  # fmt: skip


def flip_bit(data: bytes, chance: Random) -> bytes:
    """One bit, anywhere."""
    found = bytearray(data)
    found[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    return bytes(found)


def truncate(data: bytes, chance: Random) -> bytes:
    """The end is missing: nearly all of the file, part of it, or its last bytes."""
    ends = (chance.randrange(len(data)), chance.randrange(min(len(data), 16)), max(len(data) - chance.randint(1, 9), 0))
    return data[: chance.choice(ends)]


def zero_page(data: bytes, chance: Random) -> bytes:
    """A page of zeros, as a file system leaves one that it allocated and never wrote."""
    at = chance.randrange(0, len(data), PAGE)
    return data[:at] + bytes(min(PAGE, len(data) - at)) + data[at + PAGE :]


def duplicate_page(data: bytes, chance: Random) -> bytes:
    """A page in the place of another; in a file of one page, a piece in the place of another piece."""
    size = PAGE if len(data) >= 2 * PAGE else max(len(data) // 4, 1)
    source, target = (chance.randrange(0, max(len(data) - size, 1), size) for _ in range(2))
    return data[:target] + data[source : source + size] + data[target + size :]


def remove_piece(data: bytes, chance: Random) -> bytes:
    """Some bytes are gone, and what follows them moves up."""
    at = chance.randrange(len(data))
    return data[:at] + data[at + chance.choice((1, 1, 2, 8, 64)) :]


def insert_piece(data: bytes, chance: Random) -> bytes:
    """Bytes that mean something to a parser, or random ones, anywhere."""
    at = chance.randrange(len(data) + 1)
    piece = chance.choice(SEQUENCES) if chance.random() < 0.8 else chance.randbytes(chance.randint(1, 16))
    return data[:at] + piece + data[at:]


def append_bytes(data: bytes, chance: Random) -> bytes:
    """More at the end than there should be."""
    return data + chance.randbytes(chance.randint(1, 64))


def empty(data: bytes, chance: Random) -> bytes:
    """Nothing is left."""
    return b""


BYTE_DAMAGE: tuple[Damage, ...] = (
    flip_bit, truncate, zero_page, duplicate_page, remove_piece, insert_piece, append_bytes, empty,
)  # fmt: skip


def damaged(data: bytes, chance: Random, kinds: Sequence[Damage] = BYTE_DAMAGE, *, tries: int = 8) -> tuple[str, bytes]:
    """The name of one of these kinds of damage, and the bytes after it; they differ from those before.

    A kind that happens to change nothing, such as a page of zeros that is zeroed, is drawn again.
    """
    if not data:
        return append_bytes.__name__, append_bytes(data, chance)
    for _ in range(tries):
        kind = chance.choice(kinds)
        found = kind(data, chance)
        if found != data:
            return kind.__name__, found
    return flip_bit.__name__, flip_bit(data, chance)
