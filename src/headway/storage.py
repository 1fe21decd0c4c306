"""Weights on disk: safetensors only, nothing that can run code."""

from __future__ import annotations

from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import nn

from headway.errors import DataError


def save_weights(model: nn.Module, path: Path) -> None:
    """Write the parameters and buffers of a model, and nothing else: equal models are equal files."""
    save_file({name: tensor.detach().contiguous() for name, tensor in model.state_dict().items()}, path)


def load_weights(model: nn.Module, path: Path) -> None:
    """Read what `save_weights` wrote. Raises DataError naming every tensor that is missing, unknown or misshapen."""
    try:
        tensors = load_file(path)
    except (OSError, SafetensorError) as error:
        raise DataError(f"{path}: not a readable safetensors file ({error})") from error
    own = model.state_dict()
    wrong = [f"{name} is missing" for name in own if name not in tensors]
    wrong += [f"{name} is not part of the model" for name in tensors if name not in own]
    wrong += [
        f"{name} has shape {tuple(tensors[name].shape)}, expected {tuple(own[name].shape)}"
        for name in own
        if name in tensors and tensors[name].shape != own[name].shape
    ]
    if wrong:
        raise DataError(f"{path}: {'; '.join(wrong)}")
    model.load_state_dict(tensors)
