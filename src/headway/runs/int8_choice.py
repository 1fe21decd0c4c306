"""A run's model in 8 bits, each layer by the method its measured error asks for, and how much the loss rises by it."""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from torch import Tensor, nn

from headway.errors import HeadwayError
from headway.models import Model
from headway.nn.int8 import pack, quantise
from headway.nn.int8.choice import choose
from headway.runs.int8_copy import LIMIT, Int8Facts
from headway.tasks.base import RunParts, Task
from headway.tasks.verification_inputs import CALIBRATION, VerificationInputs
from headway.verification import paths

ENOUGH = 0.7 * LIMIT  # what the layers are chosen for: a user's text may cost more than the one that is measured


def quantised(parts: RunParts, task: Task) -> tuple[Model, Int8Facts]:
    """The model of a run in 8 bits, and what was measured.

    Where a task has no inputs to measure on, every layer is plain and the rise is unknown.
    """
    model = parts.model
    try:
        inputs = task.pipeline(replace(parts, inputs=CALIBRATION)).verification(())
    except HeadwayError:
        quantise(model)
        pack(model)
        return model, Int8Facts(rise=None)
    rows = paths.batch(inputs.examples)
    keep = _real(inputs)

    def forward(each: nn.Module) -> Tensor:
        assert isinstance(each, Model)
        outputs = paths.forward(each, rows)
        return outputs.flatten(0, 1) if keep is None else outputs[keep]

    probabilities = inputs.names is not None
    quick, choice = choose(model, forward, _rise if probabilities else _squared_error, ENOUGH)
    assert isinstance(quick, Model)
    return quick, Int8Facts(
        rise=choice.rise,
        methods={name: layer.method for name, layer in choice.layers.items()},
        places=sum(len(each.tokens) for each in inputs.examples),
        own=bool(parts.data.spec) and not inputs.notes,
    )


def _real(inputs: VerificationInputs) -> Tensor | None:
    """Which places (B, T) of a padded batch are tokens; None where nothing is padded."""
    if not inputs.pads:
        return None
    lengths = torch.tensor([len(each.tokens) for each in inputs.examples])
    return torch.arange(int(lengths.max())) < lengths[:, None]


def _rise(exact_NV: Tensor, found_NV: Tensor) -> float:
    """By what share the perplexity rises: e^KL - 1, KL being the mean divergence of the distributions in nats.

    The divergence is what the loss rises by on text that the model itself wrote, over all tokens it might have written.
    """
    total, rows = 0.0, range(0, len(exact_NV), 64)  # a few rows at a time: vocabularies are large
    for exact, found in ((exact_NV[n : n + 64], found_NV[n : n + 64]) for n in rows):
        p, q = exact.float().log_softmax(-1), found.float().log_softmax(-1)
        total += float((p.exp() * (p - q)).sum())
    divergence = total / max(len(exact_NV), 1)
    return math.expm1(min(divergence, 100.0))


def _squared_error(exact_NV: Tensor, found_NV: Tensor) -> float:
    """The squared error as a share of the outputs' squares: for vectors and heat maps, which are no distribution."""
    return float((exact_NV - found_NV).square().sum() / exact_NV.square().sum().clamp(min=1e-30))
