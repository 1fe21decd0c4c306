"""Reading and writing safetensors files, and loading tensors into a model."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from headway.errors import DataError
from headway.storage.manifest import DamagedError, Fingerprint, check_file


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
