"""torch's scaled_dot_product_attention (SDPA), the default dense kernel."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor

from headway.ops.kernels.base import AttentionInputs
from headway.ops.masks import Causal, Mask, NotSelf


def hides_nothing(mask: Mask | None, keys: int) -> bool:
    """Whether the mask is known to allow everything, as in a decoding step, where no key is in the future."""
    return mask is None or (isinstance(mask, Causal) and isinstance(mask.offset, int) and mask.offset >= keys - 1)


def is_causal(mask: Mask | None, queries: int, keys: int) -> bool:
    """Whether the mask is the square causal one that SDPA has a fast path for."""
    return isinstance(mask, Causal) and isinstance(mask.offset, int) and mask.offset == 0 and queries == keys


def dense(mask: Mask, queries: int, keys: int, device: torch.device) -> tuple[Tensor, Tensor | None]:
    """The mask as SDPA takes it, and which rows have an allowed key (None: all are known to).

    SDPA's back ends differ in what they return for a fully masked row, so such a row attends to everything here and
    the caller zeroes its output.
    """

    def make() -> tuple[Tensor, Tensor | None]:
        allowed = mask.dense(queries, keys, device)
        if isinstance(mask, Causal) and isinstance(mask.offset, Tensor) and not mask.offset.ndim:
            return allowed, None  # the length of a KV cache, never below 0: the first key is always allowed
        if isinstance(mask, NotSelf) and keys > 1:
            return allowed, None  # only one key is masked per query
        alive = allowed.any(-1, keepdim=True)
        # On a CPU only: reading the values of a CUDA tensor would synchronise.
        if device.type == "cpu" and not torch.compiler.is_compiling() and alive.all():
            return allowed, None
        return allowed | ~alive, alive

    return mask.once(("sdpa", queries, keys, device), make)


@contextmanager
def drawing_from(generator: torch.Generator | None) -> Iterator[None]:
    """Set the default generator to the state of `generator`, for functions that take none (SDPA's dropout)."""
    if generator is None:
        yield
        return
    device = generator.device
    default = torch.cuda.default_generators[device.index or 0] if device.type == "cuda" else torch.default_generator
    outer = default.get_state()
    default.set_state(generator.get_state())
    try:
        yield
    finally:
        generator.set_state(default.get_state())
        default.set_state(outer)


def run(inputs: AttentionInputs) -> Tensor:
    """(B, H, T, W)."""
    if inputs.q.device.type == "cpu" and inputs.q.element_size() == 2:
        # torch's 16-bit kernels for the CPU are no faster than its 32-bit ones, and their backward pass is six times
        # slower on short sequences. Autocast would cast the tensors back to 16 bits.
        with torch.autocast("cpu", enabled=False):
            return _run(replace(inputs, q=inputs.q.float(), k=inputs.k.float(), v=inputs.v.float())).to(inputs.q.dtype)
    return _run(inputs)


def _run(inputs: AttentionInputs) -> Tensor:
    causal = inputs.bias is None and is_causal(inputs.mask, inputs.queries, inputs.keys)
    mask: Tensor | None = None
    alive: Tensor | None = None
    if inputs.mask is not None and not causal and not hides_nothing(inputs.mask, inputs.keys):
        mask, alive = dense(inputs.mask, inputs.queries, inputs.keys, inputs.q.device)
    if inputs.bias is not None:
        bias = inputs.bias.dense(inputs.rows, inputs.heads, inputs.queries, inputs.keys, inputs.q.device)
        bias = bias.to(inputs.q.dtype)
        mask = bias if mask is None else bias.masked_fill(~mask, float("-inf"))
    with drawing_from(inputs.generator if inputs.dropout else None):
        out = F.scaled_dot_product_attention(
            inputs.q,
            inputs.k,
            inputs.v,
            attn_mask=mask,
            dropout_p=inputs.dropout,
            is_causal=causal,
            scale=inputs.scale,
            enable_gqa=inputs.grouped,
        )
    return out if alive is None else out.masked_fill(~alive, 0.0)


def unsupported_reason(inputs: AttentionInputs) -> str | None:
    """None: everything is supported."""
    return None
