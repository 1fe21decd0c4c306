"""Small GGUF files for the tests, written byte by byte from the format's description."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from headway.interop.gguf_blocks import TYPE_NAMES

NUMBERS = {name: number for number, name in TYPE_NAMES.items()}
Stored = tuple[str, tuple[int, ...], bytes]  # type, shape as torch has it, blocks


def text(value: str | bytes) -> bytes:
    data = value if isinstance(value, bytes) else value.encode()
    return struct.pack("<Q", len(data)) + data


def typed(value: Any) -> bytes:
    """A metadata value with its type in front."""
    if isinstance(value, bool):
        return struct.pack("<IB", 7, value)
    if isinstance(value, int):
        return struct.pack("<II", 4, value)
    if isinstance(value, float):
        return struct.pack("<If", 6, value)
    if isinstance(value, str):
        return struct.pack("<I", 8) + text(value)
    if isinstance(value, bytes):
        return struct.pack("<IIQ", 9, 0, len(value)) + value
    if not value or isinstance(value[0], str):
        return struct.pack("<IIQ", 9, 8, len(value)) + b"".join(map(text, value))
    kind, layout = (6, "f") if isinstance(value[0], float) else (5, "i")
    return struct.pack("<IIQ", 9, kind, len(value)) + struct.pack(f"<{len(value)}{layout}", *value)


def stored(tensor: Tensor, kind: str = "F32") -> Stored:
    """A tensor in one of the formats that a test can write without a quantiser of its own."""
    if kind == "Q8_0":
        blocks = tensor.float().reshape(-1, 32)
        scale = (blocks.abs().amax(1, keepdim=True) / 127).half()
        numbers = (blocks / scale.float().clamp(min=1e-8)).round().clamp(-127, 127).to(torch.int8)
        data = torch.cat([scale.view(torch.uint8), numbers.view(torch.uint8)], 1)
        return kind, tuple(tensor.shape), data.numpy().tobytes()
    dtype = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}[kind]
    data = tensor.to(dtype).contiguous().view(-1).view(torch.uint8)
    return kind, tuple(tensor.shape), data.numpy().tobytes()


def gguf_bytes(
    metadata: Mapping[str, Any], tensors: Mapping[str, Stored], *, version: int = 3, alignment: int = 32
) -> bytes:
    head = [b"GGUF", struct.pack("<IQQ", version, len(tensors), len(metadata))]
    head += [text(key) + typed(value) for key, value in metadata.items()]
    at, body = 0, []
    for name, (kind, shape, data) in tensors.items():
        sizes = struct.pack(f"<I{len(shape)}Q", len(shape), *reversed(shape))
        head.append(text(name) + sizes + struct.pack("<IQ", NUMBERS[kind], at))
        body.append(data + bytes(-len(data) % alignment))
        at += len(body[-1])
    header = b"".join(head)
    return header + bytes(-len(header) % alignment) + b"".join(body)


def write_gguf(path: Path, metadata: Mapping[str, Any], tensors: Mapping[str, Stored], **changed: Any) -> Path:
    path.write_bytes(gguf_bytes(metadata, tensors, **changed))
    return path
