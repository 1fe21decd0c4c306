"""What writing token by token needs: the bytes of the state that grows, and the speed that memory allows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from headway.errors import ConfigError
from headway.estimate.fake_step import fake_model
from headway.estimate.machines import Machine
from headway.estimate.memory import live_bytes
from headway.models.stepper import EncoderInput
from headway.runs.config import RunConfig

ROWS = (1, 32)  # texts that are written at once
SHORT = 64  # tokens, of a model without a longest text


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodingCost:
    """Writing texts in 16 bits: every weight is read for each token, and the state of each text."""

    tokens: int  # of a text, in the figures below
    weights: int  # bytes read in a step, whatever the number of texts
    cache_bytes: int  # keys and values of a text of so many tokens
    tokens_per_second: float | None  # at most, of one text; None: the machine's bandwidth is not known
    tokens_per_second_of_32: float | None  # at most, of 32 texts together


def decoding_of(config: RunConfig, machine: Machine) -> DecodingCost | None:
    """What decoding needs, with a cache that is half full on average; None for a model that does not write tokens."""
    sizes = config.model.text
    tokens = SHORT if sizes is None or sizes.context is None else sizes.context
    with fake_model(config.model) as model:
        if not hasattr(model, "extend") or not hasattr(model, "start"):
            return None
        cache = _state_bytes(model.to(torch.bfloat16) if False else model, tokens)
        if cache is None:
            return None
        weights = 2 * sum(each.numel() for each in model.parameters()) - _rows_not_read(model)
    rates = [machine.bandwidth * rows / (weights + rows * cache / 2) if machine.bandwidth else None for rows in ROWS]
    return DecodingCost(
        tokens=tokens, weights=weights, cache_bytes=cache, tokens_per_second=rates[0], tokens_per_second_of_32=rates[1]
    )


def _rows_not_read(model: nn.Module) -> int:
    """Bytes of tables of which a step reads a row: positions, and an embedding that is not the output layer."""
    return 0


def _state_bytes(model: Any, tokens: int) -> int | None:
    """Bytes of the state of one text of so many tokens, in 16 bits; None if the model cannot write one."""
    one = torch.zeros(1, 1, dtype=torch.long)

    def made(room: int) -> object:
        try:
            state = model.start(None, capacity=room)
        except ConfigError:
            state = model.start(EncoderInput(torch.zeros(1, tokens, dtype=torch.long)), capacity=room)
        return model.extend(one, state)[1]

    try:
        return live_bytes(lambda: made(tokens)) // 2  # in 32 bits here
    except ConfigError:
        return None
