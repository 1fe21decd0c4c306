"""torch's scaled_dot_product_attention: the fastest dense kernel on every device."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor

from headway.ops.kernels.base import Call
from headway.ops.masks import Causal, Mask, NotSelf


def hides_nothing(mask: Mask | None, keys: int) -> bool:
    """Is the mask known to allow everything, as at the last step of a cache, where nothing lies ahead?"""
    return mask is None or (isinstance(mask, Causal) and isinstance(mask.offset, int) and mask.offset >= keys - 1)


def is_causal(mask: Mask | None, queries: int, keys: int) -> bool:
    """Is the mask the square triangle that SDPA has a fast path for?"""
    return isinstance(mask, Causal) and isinstance(mask.offset, int) and mask.offset == 0 and queries == keys


def dense(mask: Mask, queries: int, keys: int, device: torch.device) -> tuple[Tensor, Tensor | None]:
    """The mask as SDPA takes it, and which rows may look anywhere at all; None where it is known that all do.

    Backends differ in what they give for a row that may look nowhere: it looks everywhere here, and is erased after.
    """

    def make() -> tuple[Tensor, Tensor | None]:
        allowed = mask.dense(queries, keys, device)
        if isinstance(mask, Causal) and isinstance(mask.offset, Tensor) and not mask.offset.ndim:
            return allowed, None  # the length of a cache, never below 0: every query sees at least the first key
        if isinstance(mask, NotSelf) and keys > 1:
            return allowed, None  # one key is hidden from each query, and another is left
        alive = allowed.any(-1, keepdim=True)
        if device.type == "cpu" and not torch.compiler.is_compiling() and alive.all():  # elsewhere a look would wait
            return allowed, None
        return allowed | ~alive, alive

    return mask.once(("sdpa", queries, keys, device), make)


@contextmanager
def drawing_from(generator: torch.Generator | None) -> Iterator[None]:
    """Lend a private stream to the default generator, for calls that take none (SDPA's dropout)."""
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


def run(call: Call) -> Tensor:
    """(B, H, T, W)."""
    if call.q.device.type == "cpu" and call.q.element_size() == 2:
        # torch's 16-bit kernels for the CPU are no faster than its 32-bit ones, and six times slower backwards on
        # short sequences; autocast would turn the tensors back.
        with torch.autocast("cpu", enabled=False):
            return _run(replace(call, q=call.q.float(), k=call.k.float(), v=call.v.float())).to(call.q.dtype)
    return _run(call)


def _run(call: Call) -> Tensor:
    causal = call.bias is None and is_causal(call.mask, call.queries, call.keys)
    mask: Tensor | None = None
    alive: Tensor | None = None
    if call.mask is not None and not causal and not hides_nothing(call.mask, call.keys):
        mask, alive = dense(call.mask, call.queries, call.keys, call.q.device)
    if call.bias is not None:
        bias = call.bias.dense(call.rows, call.heads, call.queries, call.keys, call.q.device).to(call.q.dtype)
        mask = bias if mask is None else bias.masked_fill(~mask, float("-inf"))
    with drawing_from(call.generator if call.dropout else None):
        out = F.scaled_dot_product_attention(
            call.q,
            call.k,
            call.v,
            attn_mask=mask,
            dropout_p=call.dropout,
            is_causal=causal,
            scale=call.scale,
            enable_gqa=call.grouped,
        )
    return out if alive is None else out.masked_fill(~alive, 0.0)


def refuses(call: Call) -> str | None:
    """Nothing."""
    return None
