"""Reading and writing safetensors files, and loading tensors into a model."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from headway.errors import DataError
from headway.storage.manifest import DamagedError, Fingerprint, check_file

# In the order in which safetensors puts tensors into a file: those of wide types first, so that all are aligned.
_TYPES = (
    torch.int64, torch.float64, torch.float32, torch.int32, torch.bfloat16, torch.float16, torch.int16, torch.int8,
    torch.uint8, torch.bool,
)  # fmt: skip
_TYPE_NAMES = ("I64", "F64", "F32", "I32", "BF16", "F16", "I16", "I8", "U8", "BOOL")


def write_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write a safetensors file of names, shapes and values without metadata: equal tensors give equal files."""
    save_file({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}, path)


def read_tensors(path: Path, expected: Fingerprint | None = None) -> dict[str, Tensor]:
    """The tensors of a safetensors file. Raises DataError naming the file.

    With its fingerprint from a manifest, the file is checked first. Raises DamagedError.
    """
    if expected is not None:
        check_file(path, expected)
    try:
        return load_file(path)
    except (OSError, SafetensorError, RuntimeError) as error:  # RuntimeError: torch could not map the file
        if expected is not None and not path.exists():
            raise DamagedError(f"{path.name} was removed meanwhile") from error
        raise DataError(f"{path}: not a readable safetensors file ({error})") from error


def safetensors_header(tensors: Mapping[str, Tensor]) -> tuple[bytes, list[str]]:
    """The beginning of a safetensors file of these tensors, as `write_tensors` writes it, and their order in it."""
    order = sorted(tensors, key=lambda name: (_TYPES.index(tensors[name].dtype), name))
    entries, at = {}, 0
    for name in order:
        tensor = tensors[name]
        size = tensor.numel() * tensor.element_size()
        dtype = _TYPE_NAMES[_TYPES.index(tensor.dtype)]
        entries[name] = {"dtype": dtype, "shape": list(tensor.shape), "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(entries, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text, order


def file_size(tensors: Mapping[str, Tensor]) -> int:
    """The size in bytes of a safetensors file: a length, a JSON header padded to a multiple of eight, the data."""
    header, at = {}, 0
    for name, tensor in tensors.items():
        header[name] = {"dtype": "F32", "shape": list(tensor.shape), "data_offsets": [at, at + tensor.nbytes]}
        at += tensor.nbytes
    return 8 + (len(json.dumps(header, separators=(",", ":"))) + 7) // 8 * 8 + at


def set_weights(model: nn.Module, tensors: Mapping[str, Tensor], origin: str) -> None:
    """Load tensors into a model, strictly. Raises DataError naming each one missing, unknown or of another shape."""
    own = model.state_dict()
    wrong = [f"{name} is missing" for name in own if name not in tensors]
    wrong += [f"{name} is not part of the model" for name in tensors if name not in own]
    wrong += [
        f"{name} has shape {tuple(tensors[name].shape)}, expected {tuple(own[name].shape)}"
        for name in own
        if name in tensors and tensors[name].shape != own[name].shape
    ]
    if wrong:
        raise DataError(f"{origin}: {'; '.join(wrong)}")
    # A model built on the "meta" device has no memory of its own: it takes the given tensors themselves.
    model.load_state_dict(dict(tensors), assign=any(tensor.is_meta for tensor in own.values()))
