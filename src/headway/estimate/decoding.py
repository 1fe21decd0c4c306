"""What writing token by token needs: the bytes of the state that grows, and the speed that memory allows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from headway.errors import ConfigError
from headway.estimate.fake_step import fake_model
from headway.estimate.machines import Machine
from headway.estimate.memory import live_bytes
from headway.models.stepper import EncoderInput
from headway.runs.config import RunConfig

ROWS = (1, 32)  # texts that are written at once
SHORT = 64  # tokens, of a model without a longest text
HALF = 2  # bytes of a number in 16 bits


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodingCost:
    """Writing texts in 16 bits: the weights are read for each token, whatever the number of texts, and their states."""

    tokens: int  # of a text, in the figures below
    weights: int  # bytes that a step reads of the weights: not an encoder's, and of a table of embeddings one row
    cache_bytes: int  # the state of a text of so many tokens: keys and values, and of a source what was read
    tokens_per_second: float | None  # at most, of one text; None: the machine's bandwidth is not known
    tokens_per_second_of_32: float | None  # at most, of 32 texts together


def decoding_of(config: RunConfig, machine: Machine) -> DecodingCost | None:
    """What decoding needs, with a cache that is half full on average; None for a model that does not write tokens."""
    sizes = config.model.text
    tokens = SHORT if sizes is None or sizes.context is None else sizes.context
    with fake_model(config.model) as model:
        if not hasattr(model, "extend") or not hasattr(model, "start"):
            return None
        try:
            cache = live_bytes(lambda: _begun(model, tokens)) * HALF // 4  # in 32 bits here
            weights = HALF * _numbers_read(model, tokens)
        except ConfigError:  # its source is neither text nor nothing
            return None
    rates = [machine.bandwidth * rows / (weights + rows * cache / 2) if machine.bandwidth else None for rows in ROWS]
    return DecodingCost(
        tokens=tokens, weights=weights, cache_bytes=cache, tokens_per_second=rates[0], tokens_per_second_of_32=rates[1]
    )


def _begun(model: Any, tokens: int) -> Any:
    """The state after one token, with room for so many, and of a model that reads a source one as long."""
    try:
        state = model.start(None, capacity=tokens)
    except ConfigError:
        state = model.start(EncoderInput(torch.zeros(1, tokens, dtype=torch.long)), capacity=tokens)
    return _extended(model, state)


def _extended(model: Any, state: Any) -> Any:
    return model.extend(torch.zeros(1, 1, dtype=torch.long), state)[1]


def _numbers_read(model: nn.Module, tokens: int) -> int:
    """Parameters that a step reads."""
    state = _begun(model, tokens)
    with _ReadNumbers(model) as read:
        _extended(model, state)
    return sum(read.most.values())


_NO_OR_SOME_ROWS = (
    torch.ops.prim.device.default,
    torch.ops.aten.embedding.default,
    torch.ops.aten.index.Tensor,
    torch.ops.aten.index_select.default,
)


class _ReadNumbers(TorchDispatchMode):
    """Notes how many numbers of each parameter operations read, apart from tables of which they read rows."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.most = dict.fromkeys(map(_storage, model.parameters()), 0)

    def __torch_dispatch__(
        self,
        call: Callable[..., Any],
        types: object,
        arguments: tuple[Any, ...] = (),
        named: dict[str, Any] | None = None,
    ) -> Any:
        if not getattr(call, "is_view", False) and call not in _NO_OR_SOME_ROWS:
            for leaf in tree_leaves((arguments, named)):
                if isinstance(leaf, Tensor) and (key := _storage(leaf)) in self.most:
                    self.most[key] = max(self.most[key], leaf.numel())
        return call(*arguments, **(named or {}))


def _storage(tensor: Tensor) -> int:
    """Equal for a tensor and its views."""
    return int(tensor.untyped_storage()._cdata)
