"""A run's weights as a model, in the precision it is to be used in."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor

from headway.errors import ConfigError, advise
from headway.models import Model, ModelConfig, build_model
from headway.nn.int8 import LayerChoice, pack, quantise, supported
from headway.nn.lora import merge
from headway.runs.int8_copy import Int8Copy, Int8Facts
from headway.storage.tensors import set_weights
from headway.training.checkpoints import Checkpoints

Precision = Literal["auto", "fp32", "bf16", "int8"]
TELL_PARAMETERS = 10_000_000  # quantising and measuring a model of at least this size takes seconds, and is reported


Quantise = Callable[[Model, list[int]], tuple[Model, Int8Facts]]  # a model in float32 and its steps, to 8 bits


def load_model(
    folder: Path, config: ModelConfig, *, average: int, precision: Precision, adapter: Path | None = None
) -> tuple[Model, list[int]]:
    """The model of a run in fp32 or bf16 and its steps: the mean of the last `average` checkpoints, else the best.

    With `adapter`, the updates of an adapter folder are added. Raises ConfigError for one of another base model.
    """
    weights, steps = Checkpoints(folder).weights(average=average)
    if adapter is not None:
        from headway.interop.adapter import with_adapter  # few runs have one

        weights = with_adapter(config, weights, adapter)
    model = _model(config, weights, str(folder))
    return (model.bfloat16() if precision == "bf16" else model), steps


def load_step(folder: Path, config: ModelConfig, step: int) -> Model:
    """The model of one checkpoint of a run, in fp32. Raises ConfigError for a step without one."""
    checkpoints = Checkpoints(folder)
    kept = checkpoints.steps()
    if step not in kept:
        raise ConfigError(f"{folder}: no checkpoint of step {step:,}, there are {', '.join(map(str, kept)) or 'none'}")
    return _model(config, merge(checkpoints.read(step)[0]), str(folder))


def load_int8(
    folder: Path, config: ModelConfig, *, average: int, copy: Int8Copy, quantised: Quantise
) -> tuple[Model, list[int], Int8Facts]:
    """The run's model in 8 bits, its steps and what was measured: from its copy, or quantised and kept as one."""
    checkpoints = Checkpoints(folder)
    steps, key = checkpoints.key(average=average)
    if copy.is_of(key) and copy.facts is not None:
        model = _model(config, copy.tensors, str(copy.folder), copy.facts)
        copy.make_ready(model)
        return model, steps, copy.facts
    exact, steps = load_model(folder, config, average=average, precision="fp32")
    begin = time.perf_counter()
    model, facts = quantised(exact.eval(), steps)
    seconds = time.perf_counter() - begin
    key = checkpoints.key_of(steps)
    if (steps, key) == checkpoints.key(average=average):  # otherwise they stand in for a damaged one
        copy.replace(model, key, facts)
    if sum(parameter.numel() for parameter in exact.parameters()) >= TELL_PARAMETERS:
        kept = f"kept in {copy.folder}" if copy.folder.is_dir() else "not kept: the folder cannot be written"
        advise(f"int8 weights made and measured in {seconds:.0f} s, {kept}; {facts.measured}")
    return model, steps, facts


def load_int8_like(folder: Path, config: ModelConfig, *, average: int, facts: Int8Facts) -> tuple[Model, list[int]]:
    """Other checkpoints of a run in 8 bits, plain where the run's own model is, else in float32; no copy is kept."""
    model, steps = load_model(folder, config, average=average, precision="fp32")
    quantise(model, {name: LayerChoice("fp32") for name in facts.methods})
    pack(model)
    return model, steps


def _model(config: ModelConfig, weights: Mapping[str, Tensor], origin: str, int8: Int8Facts | None = None) -> Model:
    """The model of a config with these weights; nothing is drawn at random first."""
    model = as_stored(config, weights, origin, int8)
    return model.float() if int8 is None else model  # an imported file may hold half precision; the sums are float32


def as_stored(config: ModelConfig, weights: Mapping[str, Tensor], origin: str, int8: Int8Facts | None = None) -> Model:
    """The same with the weights where they lie, in the precision they are in: no second copy."""
    model = build_model(config, device="meta")
    if int8 is not None:
        quantise(model, {name: LayerChoice(method) for name, method in int8.methods.items()})
    set_weights(model, weights, origin)
    for part in model.modules():  # buffers that are not weights are in no file
        for name, buffer in part.named_buffers(recurse=False):
            if buffer.is_meta:
                setattr(part, name, torch.zeros_like(buffer, device="cpu"))
    return model


def pick_precision(wanted: Precision, device: torch.device) -> Precision:
    """What `auto` means on a device: the fastest that it has; int8 only if it is exact enough (`Int8Facts.acceptable`).

    Raises ConfigError for what a device cannot do.
    """
    if wanted == "auto":
        if device.type != "cpu":
            return "bf16"
        return "int8" if supported() else "fp32"
    if wanted == "int8" and device.type != "cpu":
        raise ConfigError(f"precision='int8' is for a CPU, this is {device.type}; allowed: auto, fp32, bf16")
    return wanted
