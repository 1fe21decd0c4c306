"""Linear layers in 8 bits: weights quantised once with a scale per output, activations per call with one scale.

Models with outliers, activations far larger than the others in some rows or columns, lose too much that way: `outliers`
has the layers for them, `choice` finds out which layers need one.

Everything that knows how torch multiplies in 8 bits is in this file (`torchscript_step` calls the same operations).
torch has deprecated its quantised tensors; without them, or on a processor without such products, the same 8-bit
weights are multiplied in float32.
"""

from __future__ import annotations

import sys
import threading
import warnings
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headway.nn.embedding import Head
from headway.nn.linear import FusedLinear
from headway.nn.taps import observed

LEVELS = 127
TORCHSCRIPT = sys.version_info < (3, 14)  # later Pythons lack it: quantised models then step layer by layer
PROCESS_LOCK = threading.RLock()  # guards state of the process: the quantised engine, warning filters


def _operation(name: str) -> Any:
    """torch's operation without its Python wrapper, whose checks no 8-bit product needs."""
    wrapped = getattr(getattr(torch.ops.quantized, name, None), "default", None)
    return getattr(wrapped, "_op", wrapped)


MULTIPLY, MULTIPLY_RELU = _operation("linear_dynamic"), _operation("linear_relu_dynamic")
# The same with a given scale and zero point: x is rounded to multiples of the scale.
MULTIPLY_SCALED = _operation("linear_with_input_q_dq_qweight_dq_output_fp32")


Method = Literal["rows", "smooth", "two-part", "fp32"]  # from the fastest to the most exact


@dataclass(frozen=True, slots=True)
class LayerChoice:
    """How a linear layer that is not plain is multiplied (`headway.nn.int8.outliers`); one in "fp32" stays as it is.

    `peaks` (K,) is the largest activation met in each column, as a share of the largest in its row; None for a layer
    whose weights are read from a file later.
    """

    method: Method
    peaks: Tensor | None = None


class Int8Linear(nn.Module):
    """x·(weight·scale)ᵀ + bias with an 8-bit weight (N, K) and a scale (N,)."""

    weight: Tensor
    scale: Tensor
    bias: Tensor | None

    def __init__(self, weight_NK: Tensor, bias_N: Tensor | None, parts: tuple[int, ...] = ()) -> None:
        super().__init__()
        if weight_NK.is_meta:  # loaded from a file later
            weight = torch.empty(tuple(weight_NK.shape), dtype=torch.int8, device="meta")  # empty_like is slow there
            scale = torch.empty(len(weight_NK), device="meta")
        else:
            exact = weight_NK.detach().float()
            scale = exact.abs().amax(1).clamp(min=1e-12) / LEVELS
            weight = (exact / scale[:, None]).round().to(torch.int8)
        self.register_buffer("weight", weight)
        self.register_buffer("scale", scale)
        self.register_buffer("bias", None if bias_N is None else bias_N.detach().float())
        self.out_features, self.in_features = weight_NK.shape  # as those of the layer it replaces
        self.parts = parts or (self.out_features,)
        self.packed_weight: Any = None  # for the engine: set by the first call, or by `pack`

    def forward(self, x: Tensor) -> Tensor:
        """(…, K) -> (…, N)."""
        return self._multiply(x, MULTIPLY)

    def forward_relu(self, x: Tensor) -> Tensor:
        """relu(forward(x)), in one operation where no hook reads the product."""
        if observed(self):
            y: Tensor = self(x)
            return y.relu()
        return self._multiply(x, MULTIPLY_RELU)

    def _multiply(self, x: Tensor, operation: Any) -> Tensor:
        if self.packed_weight is not None and x.is_cpu and x.dtype == torch.float32:
            multiplied: Tensor = operation(x, self.packed_weight, reduced())
            return multiplied
        if not x.is_cpu or x.dtype != torch.float32 or not supported():
            y = F.linear(x.float(), self.weight.float() * self.scale[:, None], self.bias).to(x.dtype)
            return y.relu_() if operation is MULTIPLY_RELU else y
        with fbgemm():
            if self.packed_weight is None:  # another thread may have packed it meanwhile
                self.packed_weight = self.pack()
        return self._multiply(x, operation)

    def pack(self) -> Any:
        """The weight in the engine's format; under `fbgemm`."""
        return pack_weight(self.weight, self.scale, self.bias)

    def exact_inputs(self, rows: int, generator: torch.Generator) -> Tensor:
        """Random inputs (rows, K) that quantising does not change, so that only the weights are rounded.

        They are integers that use the whole range of 8 bits, or of 7: the scale of the call is 1.
        """
        levels = LEVELS // 2 if reduced() else LEVELS
        return whole_numbers(-levels - 1, levels, rows, self.in_features, generator)

    def dequantised(self) -> Tensor:
        """The weight (N, K) that the 8-bit one and its scales stand for."""
        return self.weight.float() * self.scale[:, None]

    def split(self, x: Tensor) -> tuple[Tensor, ...]:
        """(…, sum of parts) -> one tensor for each part, as `FusedLinear.split`."""
        return torch.split_with_sizes(x, self.parts, -1)


def whole_numbers(least: int, largest: int, rows: int, columns: int, generator: torch.Generator) -> Tensor:
    """Random integers (rows, columns) in float32; each row has the least and, with two columns, the largest."""
    x_RK = torch.randint(least, largest + 1, (rows, columns), generator=generator).float()
    x_RK[:, -1], x_RK[:, 0] = largest, least
    return x_RK


def pack_weight(weight_NK: Tensor, scale_N: Tensor, bias_N: Tensor | None) -> Any:
    """An 8-bit weight in the engine's format; under `fbgemm`."""
    zeros = torch.zeros(len(scale_N), dtype=torch.long)
    whole = torch._make_per_channel_quantized_tensor(weight_NK, scale_N.double(), zeros, 0)
    return torch.ops.quantized.linear_prepack(whole, bias_N)


class Int8Head(Int8Linear):
    """The output layer, with a matrix of its own even if it was tied: the embedding stays in float32."""

    def forward(self, x_BTD: Tensor, embedding_VD: Tensor | None = None) -> Tensor:
        """(B, T, D) -> (B, T, V); the embedding is not used."""
        return super().forward(x_BTD)


def quantise(model: nn.Module, choices: Mapping[str, LayerChoice] = MappingProxyType({})) -> None:
    """Replace every linear layer by an 8-bit one of the same name, and install the step program of each stack.

    `choices` has, by their names, the layers that are not plain. Everything else stays in float32.
    """
    for name, layer in linear_layers(model).items():
        choice = choices.get(name)
        if choice is None or choice.method != "fp32":
            place, _, last = name.rpartition(".")
            setattr(model.get_submodule(place), last, int8_layer(model, layer, choice))
    stacks = [part for part in model.modules() if hasattr(part, "step_program")]
    if stacks and TORCHSCRIPT and supported():
        from headway.nn.int8.torchscript_step import TorchScriptStep  # imports attention, which a stack has already

        for stack in stacks:
            stack.step_program = TorchScriptStep()  # type: ignore[assignment]


def linear_layers(model: nn.Module) -> dict[str, nn.Module]:
    """The layers that `quantise` replaces, by name: every linear layer, and the output layer."""
    return {name: part for name, part in model.named_modules() if isinstance(part, Head | nn.Linear)}


def exact_weights(model: nn.Module, layer: nn.Module) -> tuple[Tensor, Tensor | None]:
    """The weight (N, K) and the bias (N,) of a linear layer of a model; an output layer may share them."""
    source: Any = model if isinstance(layer, Head) else layer
    weight_NK, bias_N = source.output() if isinstance(layer, Head) else (source.weight, source.bias)
    return weight_NK, bias_N


def int8_layer(model: nn.Module, layer: nn.Module, choice: LayerChoice | None = None) -> Int8Linear:
    """A linear layer of a model, or its output layer, in 8 bits; plain without a choice."""
    head, parts = isinstance(layer, Head), layer.parts if isinstance(layer, FusedLinear) else ()
    weight_NK, bias_N = exact_weights(model, layer)
    if choice is None:
        return (Int8Head if head else Int8Linear)(weight_NK, bias_N, parts)
    from headway.nn.int8.outliers import OutlierInt8Head, OutlierInt8Linear  # which few models need

    return (OutlierInt8Head if head else OutlierInt8Linear)(weight_NK, bias_N, parts, choice)


@cache
def supported() -> bool:
    """Whether this machine has 8-bit products: tried on a small one."""
    try:
        if "fbgemm" not in torch.backends.quantized.supported_engines:
            return False
        with fbgemm():
            packed = Int8Linear(torch.ones(8, 8), None).pack()
        ones, eights = torch.ones(1, 8), torch.full((1, 8), 8.0)
        products = MULTIPLY(ones, packed, False), MULTIPLY_SCALED(ones, 1.0, LEVELS + 1, packed)
        return all(torch.equal(product.round(), eights) for product in products)
    except (RuntimeError, AttributeError, NotImplementedError, TypeError):
        return False


def pack(model: nn.Module) -> None:
    """Prepare every 8-bit layer for its first call, on several threads."""
    layers = [part for part in model.modules() if isinstance(part, Int8Linear)]
    if supported():
        with fbgemm(), ThreadPoolExecutor(torch.get_num_threads()) as pool:
            for layer, packed in zip(layers, pool.map(Int8Linear.pack, layers), strict=True):
                layer.packed_weight = packed


@contextmanager
def fbgemm() -> Iterator[None]:
    """Select the FBGEMM engine.

    oneDNN, torch's other engine, is up to a tenth faster from some hundred rows on, but keeps memory for each number of
    rows it has met: the memory of a long job with sentences of all lengths would grow without bound.
    """
    with PROCESS_LOCK:
        before = torch.backends.quantized.engine
        torch.backends.quantized.engine = "fbgemm"
        try:
            with warnings.catch_warnings(), torch.inference_mode(False):
                warnings.filterwarnings("ignore", message=".*quantized tensor")  # its deprecation
                yield
        finally:
            torch.backends.quantized.engine = before


@cache
def reduced() -> bool:
    """Whether inputs are quantised to 7 bits: without VNNI two products are summed in 16 bits, which 8 can overflow."""
    known = getattr(torch.cpu, "_is_vnni_supported", None)
    return not (known and known())
