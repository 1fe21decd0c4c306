"""Linear layers in 8 bits: weights quantised once, a scale an output; activations as they come, a scale a call.

Everything that knows how torch multiplies in 8 bits is in this file (`scripted` calls the same operations). torch has
announced that its quantised tensors will go; where they are gone, or the processor is another, the same 8-bit weights
are multiplied in float32.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headway.nn.embedding import Head
from headway.nn.linear import FusedLinear

LEVELS = 127
# The operation itself: the wrapper around it looks for things that an 8-bit product never has, at every call.


def _operation(name: str) -> Any:
    wrapped = getattr(getattr(torch.ops.quantized, name, None), "default", None)
    return getattr(wrapped, "_op", wrapped)


PROCESS = threading.RLock()  # for what is the process's, not a thread's: the engine, silenced warnings
_MULTIPLY, _MULTIPLY_RELU = _operation("linear_dynamic"), _operation("linear_relu_dynamic")


class Int8Linear(nn.Module):
    """x·(weight·scale)ᵀ + bias with an 8-bit weight (N, K) and a scale (N,)."""

    weight: Tensor
    scale: Tensor
    bias: Tensor | None

    def __init__(self, weight_NK: Tensor, bias_N: Tensor | None, parts: tuple[int, ...] = ()) -> None:
        super().__init__()
        if weight_NK.is_meta:  # to be filled from a file
            weight = torch.empty(tuple(weight_NK.shape), dtype=torch.int8, device="meta")  # empty_like is slow there
            scale = torch.empty(len(weight_NK), device="meta")
        else:
            exact = weight_NK.detach().float()
            scale = exact.abs().amax(1).clamp(min=1e-12) / LEVELS
            weight = (exact / scale[:, None]).round().to(torch.int8)
        self.register_buffer("weight", weight)
        self.register_buffer("scale", scale)
        self.register_buffer("bias", None if bias_N is None else bias_N.detach().float())
        self.parts = parts or (weight_NK.shape[0],)
        self.ready: Any = None  # the weight, packed: by the first call, or by `pack`

    def forward(self, x: Tensor) -> Tensor:
        """(…, K) -> (…, N)."""
        return self._multiply(x, _MULTIPLY)

    def then_relu(self, x: Tensor) -> Tensor:
        """max(0, forward(x)), in one pass."""
        return self._multiply(x, _MULTIPLY_RELU)

    def _multiply(self, x: Tensor, operation: Any) -> Tensor:
        if self.ready is not None and x.is_cpu and x.dtype == torch.float32:
            multiplied: Tensor = operation(x, self.ready, reduced())
            return multiplied
        if not x.is_cpu or x.dtype != torch.float32 or not supported():
            y = F.linear(x.float(), self.weight.float() * self.scale[:, None], self.bias).to(x.dtype)
            return y.relu_() if operation is _MULTIPLY_RELU else y
        with fbgemm():
            if self.ready is None:  # another thread may have been first
                self.ready = self.packed()
        return self._multiply(x, operation)

    def packed(self) -> Any:
        """The weight as the engine reads it."""
        return packed(self.weight, self.scale, self.bias)

    def split(self, x: Tensor) -> tuple[Tensor, ...]:
        """(…, sum of parts) -> one tensor a part, as a fused layer gives them."""
        return torch.split_with_sizes(x, self.parts, -1)


def packed(weight_NK: Tensor, scale_N: Tensor, bias_N: Tensor | None) -> Any:
    """An 8-bit weight as the engine reads it; under `fbgemm`."""
    zeros = torch.zeros(len(scale_N), dtype=torch.long)
    whole = torch._make_per_channel_quantized_tensor(weight_NK, scale_N.double(), zeros, 0)
    return torch.ops.quantized.linear_prepack(whole, bias_N)


class Int8Head(Int8Linear):
    """The output layer, with a matrix of its own also where it was tied: the embedding stays as it is."""

    def forward(self, x_BTD: Tensor, embedding_VD: Tensor | None = None) -> Tensor:
        """(B, T, D) -> (B, T, V); the embedding is not needed."""
        return super().forward(x_BTD)


def quantise(model: nn.Module) -> None:
    """Put an 8-bit layer in the place of every linear one, under the same names; all else stays in float32."""
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, Head):
                matrix, bias = model.output()  # type: ignore[operator]
                setattr(parent, name, Int8Head(matrix, bias))
            elif isinstance(child, nn.Linear):
                parts = child.parts if isinstance(child, FusedLinear) else ()
                setattr(parent, name, Int8Linear(child.weight, child.bias, parts))


@cache
def supported() -> bool:
    """Can this machine multiply in 8 bits, faster than in 32? Tried on a small product."""
    try:
        if "fbgemm" not in torch.backends.quantized.supported_engines:
            return False
        with fbgemm():
            ready = Int8Linear(torch.ones(8, 8), None).packed()
        return torch.equal(_MULTIPLY(torch.ones(1, 8), ready, False).round(), torch.full((1, 8), 8.0))
    except (RuntimeError, AttributeError, NotImplementedError, TypeError):
        return False


def pack(model: nn.Module) -> None:
    """Make every 8-bit layer ready for its first call: side by side, which together takes half the time."""
    layers = [part for part in model.modules() if isinstance(part, Int8Linear)]
    if supported():
        with fbgemm(), ThreadPoolExecutor(torch.get_num_threads()) as pool:
            for layer, ready in zip(layers, pool.map(Int8Linear.packed, layers), strict=True):
                layer.ready = ready


@contextmanager
def fbgemm() -> Iterator[None]:
    """Products in FBGEMM.

    oneDNN, torch's other engine, is up to a tenth faster from some hundred rows on, but keeps some memory for each
    number of rows it has met: a long job with sentences of all lengths would grow without end.
    """
    with PROCESS:
        before = torch.backends.quantized.engine
        torch.backends.quantized.engine = "fbgemm"
        try:
            with warnings.catch_warnings(), torch.inference_mode(False):
                warnings.filterwarnings("ignore", message=".*quantized tensor")  # that all this will go
                yield
        finally:
            torch.backends.quantized.engine = before


@cache
def reduced() -> bool:
    """Without VNNI two products are summed in 16 bits, which only seven-bit inputs never overflow."""
    known = getattr(torch.cpu, "_is_vnni_supported", None)
    return not (known and known())
