"""WAV files: 8 to 32-bit integers or floats, any number of channels, read as mono at any sample rate."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headway.data.files import listed, read_bytes
from headway.errors import DataError, shown
from headway.limits import expect_within

Wave = NDArray[np.float32]
PCM, FLOAT, EXTENSIBLE = 1, 3, 0xFFFE
BITS = {PCM: (8, 16, 24, 32), FLOAT: (32, 64)}
RATES = (100, 1_000_000)  # samples per second
MAX_CHUNKS = 10_000
LOUDEST = 1e9  # 1 is full scale, but files with floats may go beyond
REACH = 16  # zero crossings of the resampling filter on either side
CHUNK = 1 << 19  # products of the resampling filter computed at a time
BLOCK = 1 << 18  # samples converted at a time


def read_wav(path: Path, rate: int) -> Wave:
    """A file as samples (T,) from -1 to 1, channels averaged, at this rate. Raises DataError naming the problem."""
    return decode_wav(read_bytes(path), path, rate)


def decode_wav(data: bytes, path: str | Path, rate: int, *, most: int | None = None) -> Wave:
    """Decode the bytes of a file, as `read_wav`; `path` is its name in errors.

    Of a sound longer than `most` samples, only that many from its middle are computed.
    """
    if len(data) < 12 or data[:4] != b"RIFF" or data[8:12] != b"WAVE":
        raise DataError(
            f"{path}: not a WAV file, which begins with RIFF and WAVE; `ffmpeg -i FILE FILE.wav` converts others"
        )
    chunks = _chunks(path, data)
    kind, channels, own, bits = _format(path, chunks.get(b"fmt "))
    body = chunks.get(b"data")
    if body is None:
        raise DataError(f"{path}: a WAV file without samples; chunks: {_listed(chunks)}")
    frame = channels * bits // 8
    if not body:
        raise DataError(f"{path}: a WAV file whose samples are missing, expected at least one")
    if len(body) % frame:
        raise DataError(f"{path}: {len(body):,} bytes of samples, expected a multiple of {frame}")
    count = len(body) // frame
    expect_within("samples", count, f"{path}", DataError)
    if most is None:
        expect_within("samples", count * rate // own, f"{path}: at {rate:,} samples a second", DataError)
    mono = np.empty(count)
    for at in range(0, count, BLOCK):
        samples = _samples(body[at * frame : (at + BLOCK) * frame], kind, bits)
        if not (np.abs(samples) <= LOUDEST).all():
            raise DataError(f"{path}: a sample is NaN or infinite, or beyond ±{LOUDEST:g}")
        mono[at : at + BLOCK] = samples.reshape(-1, channels).mean(1, dtype=np.float64)
    return resample(mono, own, rate, most=most)


def resample(samples: NDArray[Any], own: int, rate: int, *, most: int | None = None) -> Wave:
    """Resample (T,) with a windowed sinc, which removes frequencies above the new Nyquist limit.

    Of more than `most` samples, only that many in the middle are computed.
    """
    count = len(samples) if own == rate else max(int(len(samples) * rate / own), 1)
    skipped = 0 if most is None else max(count - most, 0) // 2
    count = count if most is None else min(count, most)
    if own == rate:
        return samples[skipped : skipped + count].astype(np.float32)
    cutoff = min(1.0, rate / own)
    reach = int(np.ceil(REACH / cutoff))
    padded = np.pad(samples, reach + 1)
    made = np.empty(count, np.float32)
    rows = max(CHUNK // (2 * reach), 1)
    for at in range(0, count, rows):
        place = np.arange(skipped + at, skipped + min(at + rows, count)) * (own / rate)
        first = np.floor(place).astype(np.int64) - reach + 1
        index = first[:, None] + np.arange(2 * reach)
        away = place[:, None] - index
        window = np.cos(np.pi / 2 * np.clip(away / reach, -1, 1)) ** 2
        weight = np.sinc(away * cutoff) * window
        made[at : at + rows] = (padded[index + reach + 1] * weight).sum(1) / weight.sum(1)
    return made


def _chunks(path: str | Path, data: bytes) -> dict[bytes, memoryview]:
    found: dict[bytes, memoryview] = {}
    at = 12
    while at + 8 <= len(data):
        name, size = data[at : at + 4], int.from_bytes(data[at + 4 : at + 8], "little")
        if at + 8 + size > len(data):
            there = len(data) - at - 8
            raise DataError(f"{path}: cut short, chunk {shown(name)} says {size:,} bytes and has {there:,}")
        if len(found) > MAX_CHUNKS:
            raise DataError(f"{path}: more than {MAX_CHUNKS:,} chunks")
        found.setdefault(name, memoryview(data)[at + 8 : at + 8 + size])
        at += 8 + size + size % 2  # chunks start at even offsets
    return found


def _format(path: str | Path, head: memoryview | None) -> tuple[int, int, int, int]:
    """Kind, channels, rate and bits."""
    if head is None or len(head) < 16:
        raise DataError(f"{path}: a WAV file without a format chunk")
    kind, channels, rate, _, _, bits = struct.unpack("<HHIIHH", head[:16])
    if kind == EXTENSIBLE and len(head) >= 26:
        kind = int.from_bytes(head[24:26], "little")
    if kind not in BITS:
        raise DataError(f"{path}: format {kind}, allowed: {PCM} (PCM) and {FLOAT} (float)")
    if bits not in BITS[kind]:
        raise DataError(f"{path}: {bits} bits, allowed: {', '.join(map(str, BITS[kind]))}")
    if not channels or not rate:
        raise DataError(f"{path}: {channels} channels at {rate} samples a second, expected at least one of each")
    if not RATES[0] <= rate <= RATES[1]:
        raise DataError(f"{path}: {rate:,} samples a second, allowed: {RATES[0]:,} to {RATES[1]:,}")
    return kind, channels, rate, bits


def _samples(body: memoryview, kind: int, bits: int) -> NDArray[Any]:
    if kind == FLOAT:
        return np.frombuffer(body, f"<f{bits // 8}")
    if bits == 8:  # the only unsigned width
        return (np.frombuffer(body, np.uint8).astype(np.float32) - 128) / 128
    if bits == 24:
        parts = np.frombuffer(body, np.uint8).reshape(-1, 3)
        wide = np.zeros((len(parts), 4), np.uint8)
        wide[:, 1:] = parts
        return wide.view("<i4")[:, 0] / 2.0**31
    return np.frombuffer(body, f"<i{bits // 8}") / 2.0 ** (bits - 1)


def _listed(chunks: dict[bytes, memoryview]) -> str:
    return listed([shown(name) for name in chunks]) or "none"
