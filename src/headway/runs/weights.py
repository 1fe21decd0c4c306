"""A run's weights as a model, in the precision it is to be used in."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor

from headway.errors import ConfigError
from headway.models import Model, ModelConfig, build_model
from headway.nn.int8 import pack, quantise, supported
from headway.runs.int8_copy import Int8Copy, opened
from headway.storage.tensors import set_weights
from headway.training.checkpoints import Checkpoints

Precision = Literal["auto", "fp32", "bf16", "int8"]


def load_model(
    folder: Path, config: ModelConfig, *, average: int, precision: Precision, copy: Int8Copy | None = None
) -> tuple[Model, list[int]]:
    """The model of a run and the steps it is of: the mean of the last `average` checkpoints, else the best."""
    if precision == "int8":
        with opened(folder) if copy is None else nullcontext(copy) as found:
            return _int8_model(folder, config, average, found)
    weights, steps = Checkpoints(folder).weights(average=average)
    model = _model(config, weights, str(folder))
    return (model.bfloat16() if precision == "bf16" else model), steps


def _model(config: ModelConfig, weights: Mapping[str, Tensor], origin: str, *, int8: bool = False) -> Model:
    """The model of a config with these weights; nothing is drawn at random first."""
    model = as_stored(config, weights, origin, int8=int8)
    return model if int8 else model.float()  # an imported file may hold half precision; the sums are float32


def as_stored(config: ModelConfig, weights: Mapping[str, Tensor], origin: str, *, int8: bool = False) -> Model:
    """The same with the weights where they lie, in the precision they are in: no second copy."""
    model = build_model(config, device="meta")
    if int8:
        quantise(model)
    set_weights(model, weights, origin)
    for part in model.modules():  # buffers that are not weights are in no file
        for name, buffer in part.named_buffers(recurse=False):
            if buffer.is_meta:
                setattr(part, name, torch.zeros_like(buffer, device="cpu"))
    return model


def _int8_model(folder: Path, config: ModelConfig, average: int, copy: Int8Copy) -> tuple[Model, list[int]]:
    """The run's model in 8 bits: from its copy, or quantised and kept as one."""
    checkpoints = Checkpoints(folder)
    steps, key = checkpoints.key(average=average)
    if copy.is_of(key):
        model = _model(config, copy.tensors, str(copy.folder), int8=True)
        copy.make_ready(model)
        return model, steps
    weights, steps = checkpoints.weights(average=average)
    model = _model(config, weights, str(folder))
    quantise(model)
    copy.replace(model, checkpoints.key(average=average)[1])
    pack(model)
    return model, steps


def pick_precision(wanted: Precision, device: torch.device) -> Precision:
    """What `auto` means on a device: the fastest that it has. Raises ConfigError for what a device cannot do."""
    if wanted == "auto":
        if device.type != "cpu":
            return "bf16"
        return "int8" if supported() else "fp32"
    if wanted == "int8" and device.type != "cpu":
        raise ConfigError(f"precision='int8' is for a CPU, this is {device.type}; allowed: auto, fp32, bf16")
    return wanted
