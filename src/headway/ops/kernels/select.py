"""The choice of `kernel="auto"`: the fastest supported kernel by device, mask and size (`headway bench flash`)."""

from __future__ import annotations

from headway._compile import compiler_missing
from headway.ops.kernels import cudnn, decode, flex, triton_flash, triton_small
from headway.ops.kernels.base import AttentionInputs, in_forward_ad
from headway.ops.kernels.sdpa import is_causal
from headway.ops.mask_structure import MaskStructure, QuerySubset

MIN_SPARSITY = 4  # keys per key of the window, from which skipping the others is faster
MIN_FLASH_QUERIES = 1024  # with fewer, a dense mask costs little and launching Triton much
MIN_FLEX_WIDTH = 16  # features per head


def choose(inputs: AttentionInputs) -> str:
    """The name of the kernel that `auto` uses for these inputs."""
    if not inputs.queries or not inputs.keys or in_forward_ad():  # few other kernels support forward-mode AD
        return "reference"
    return _on_gpu(inputs) if inputs.q.is_cuda else _on_cpu(inputs)


def _on_cpu(inputs: AttentionInputs) -> str:
    training = inputs.needs_gradient or inputs.dropout
    if inputs.queries <= decode.MAX_QUERIES and inputs.q.device.type == "cpu" and not training:
        return "few"
    return "banded" if is_narrow_band(inputs) else "sdpa"


def is_narrow_band(inputs: AttentionInputs) -> bool:
    """Whether the mask leaves each query a window that is small compared with the number of keys."""
    if inputs.mask is None or inputs.queries == 1:
        return False
    # Strips cost about twice the window per query; a dense kernel costs every key but is fused.
    structure = MaskStructure.of(inputs.mask, inputs.heads)
    return structure.finite and MIN_SPARSITY * structure.width <= inputs.keys


def _on_gpu(inputs: AttentionInputs) -> str:
    if isinstance(inputs.mask, QuerySubset) and decode.is_faster_for(inputs):
        return "few"
    if inputs.q.element_size() != 2:  # in float32 flash cannot use tensor cores, and flex multiplies in tf32
        return "banded" if is_narrow_band(inputs) else "sdpa"
    if triton_small.is_faster_for(inputs):
        return "short"
    if cudnn.is_faster_for(inputs):
        return "cudnn"
    window = is_narrow_band(inputs)
    plain = inputs.mask is None or is_causal(inputs.mask, inputs.queries, inputs.keys)
    dense = inputs.bias is not None or not plain
    if (window or (dense and inputs.queries >= MIN_FLASH_QUERIES)) and _flash_is_usable(inputs):
        return "flash"  # SDPA would need a dense mask or bias
    if window:
        return "flex" if _flex_is_usable(inputs) else "banded"
    return "sdpa"


def _flash_is_usable(inputs: AttentionInputs) -> bool:
    return triton_flash.is_measured_on(inputs) and triton_flash.unsupported_reason(inputs) is None


def _flex_is_usable(inputs: AttentionInputs) -> bool:
    """Whether flex supports these inputs and can be compiled here."""
    wide = inputs.q.shape[-1] >= MIN_FLEX_WIDTH
    return wide and flex.unsupported_reason(inputs) is None and compiler_missing("cuda") is None
