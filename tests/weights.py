"""A model's weights to a file and back."""

from __future__ import annotations

from pathlib import Path

from torch import nn

from headway.storage.tensors import read_tensors, set_weights, write_tensors


def save_weights(model: nn.Module, path: Path) -> None:
    write_tensors(path, model.state_dict())


def load_weights(model: nn.Module, path: Path) -> None:
    set_weights(model, read_tensors(path), str(path))
