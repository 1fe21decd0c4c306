"""FlexAttention: any mask and bias compiled into one fused kernel; blocks that are fully masked are skipped."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask, create_block_mask, flex_attention

from headway._compile import compiler_missing
from headway.errors import AdviceWarning
from headway.ops.kernels import sdpa
from headway.ops.kernels.base import AttentionInputs, in_forward_ad
from headway.ops.mask_structure import MaskStructure
from headway.ops.masks import Mask

BLOCK_SIZE = 128  # queries and keys of a block
BLOCKS_AT_ONCE = 512  # evaluated together when a block mask is built


@functools.cache
def _warn_fallback(reason: str) -> None:
    warnings.warn(
        f"falling back from flex to sdpa: {reason}; install it, or use kernel='sdpa' to silence this warning",
        AdviceWarning,
        stacklevel=2,
    )


@functools.cache
def _compiled() -> Callable[..., Any]:
    return torch.compile(flex_attention)  # varying lengths and offsets become dynamic instead of recompiling


# --- block masks ---


def block_mask(inputs: AttentionInputs) -> BlockMask | None:
    """The mask in the form FlexAttention takes."""
    if inputs.mask is None:
        return None
    size = (inputs.queries, inputs.keys, inputs.q.device, torch.is_inference_mode_enabled())
    if not inputs.mask.tensors:
        return _shared_block_mask(inputs.mask, None, *size)
    mask = inputs.mask
    rows = inputs.rows if any(tensor.ndim for tensor in mask.tensors) else None  # 0-d data is the same for every row
    return mask.once(("block", *size), lambda: _block_mask(mask, rows, *size))


def _block_mask(
    mask: Mask, rows: int | None, queries: int, keys: int, device: torch.device, inference: bool
) -> BlockMask:
    """`inference` is only a cache key: autograd cannot save tensors made in inference mode."""

    def allowed(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:  # torch requires a function, not a method
        return mask.allowed(b, h, i, j)

    if MaskStructure.of(mask, mask.heads).finite:
        return band_block_mask(mask, allowed, rows or 1, mask.heads, queries, keys, device)
    heads = mask.heads if mask.heads > 1 else None
    return create_block_mask(allowed, rows, heads, queries, keys, device=str(device))


# A mask without tensors is fully described by its structure, which is its hash: one BlockMask per size.
_shared_block_mask = functools.lru_cache(maxsize=64)(_block_mask)


def band_block_mask(
    mask: Mask, allowed: Callable[..., Tensor], rows: int, heads: int, queries: int, keys: int, device: torch.device
) -> BlockMask:
    """The block mask of a mask with a finite band, in time and memory proportional to the band.

    `create_block_mask` evaluates the mask for every pair of tokens; here only the blocks that a band or a global token
    can touch are evaluated. Blocks that are allowed entirely run without a mask. `allowed` is the mask's formula as a
    function; the mask differs in `rows` batch rows and `heads` heads.
    """
    touched = _touched_blocks(MaskStructure.of(mask, heads), rows, queries, keys, device)
    partial, full = (torch.zeros(touched.shape, dtype=torch.bool, device=device) for _ in range(2))
    step = torch.arange(BLOCK_SIZE, device=device)
    for part in touched.nonzero().split(BLOCKS_AT_ONCE):
        b, h, i, j = part.view(-1, 4, 1, 1).unbind(1)
        i, j = i * BLOCK_SIZE + step.view(-1, 1), j * BLOCK_SIZE + step
        real = (i < queries) & (j < keys)
        inside = mask.allowed(b, h, i.clamp(max=queries - 1), j.clamp(max=keys - 1)) & real
        full[tuple(part.T)] = inside.flatten(1).all(1)
        partial[tuple(part.T)] = inside.flatten(1).any(1)
    return BlockMask.from_kv_blocks(
        *_counts_and_indices(partial & ~full),
        *_counts_and_indices(full),
        BLOCK_SIZE=BLOCK_SIZE,
        mask_mod=allowed,
        seq_lengths=(queries, keys),
    )


def _touched_blocks(structure: MaskStructure, rows: int, queries: int, keys: int, device: torch.device) -> Tensor:
    """(B, H, query blocks, key blocks): those in a head's band, or in the row or column of a global token."""
    i = BLOCK_SIZE * torch.arange(-(-queries // BLOCK_SIZE), device=device).view(-1, 1)
    j = BLOCK_SIZE * torch.arange(-(-keys // BLOCK_SIZE), device=device)
    heads = sum(map(len, structure.bands.values()))
    touched = torch.zeros(rows, heads, len(i), len(j), dtype=torch.bool, device=device)
    for band, where in structure.bands.items():
        touched[:, where] = (j - i + BLOCK_SIZE > band.low) & (j - i - BLOCK_SIZE < band.high)
    if structure.global_tokens is not None:
        marks, start = structure.global_tokens.marks, structure.global_tokens.offset
        touched |= _any_per_block(marks)[:, None, None]
        if structure.global_tokens.seeing:
            touched |= _any_per_block(marks[:, start : start + queries])[:, None, :, None]
    return touched


def _any_per_block(marks_BT: Tensor) -> Tensor:
    padded = F.pad(marks_BT, (0, -marks_BT.shape[1] % BLOCK_SIZE))
    return padded.view(len(padded), -1, BLOCK_SIZE).any(-1)


def _counts_and_indices(blocks: Tensor) -> tuple[Tensor, Tensor]:
    """The number of blocks in each row of blocks, and their indices, followed by those of the others."""
    order = blocks.byte().argsort(dim=-1, descending=True, stable=True)
    return blocks.sum(-1, dtype=torch.int32), order.to(torch.int32)


# --- the kernel ---


def run(inputs: AttentionInputs, *, compile: bool = True) -> Tensor:
    """(B, H, T, W); with `compile=False` torch's unfused form, which keeps all scores in memory."""
    bias = inputs.bias

    def add_bias(score: Tensor, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return score if bias is None else score + bias.term(b, h, i, j).to(score.dtype)

    arguments: dict[str, Any] = {
        "score_mod": None if bias is None else add_bias,
        "block_mask": block_mask(inputs),
        "scale": inputs.scale,
        "enable_gqa": inputs.grouped,
    }
    if not compile or torch.compiler.is_compiling():
        with warnings.catch_warnings():  # torch warns that the unfused form is slow, which is intended here
            warnings.simplefilter("ignore")
            out: Tensor = flex_attention(inputs.q, inputs.k, inputs.v, **arguments)
        return out
    missing = compiler_missing(inputs.q.device.type)
    if missing is None:
        try:
            out = _compiled()(inputs.q, inputs.k, inputs.v, **arguments)
            return out
        except torch._dynamo.exc.BackendCompilerFailed as failure:
            missing = f"compiling it failed ({str(failure).splitlines()[0]})"
    _warn_fallback(missing)
    return sdpa.run(inputs)


def unsupported_reason(inputs: AttentionInputs) -> str | None:
    """Dropout, forward-mode AD, and gradients on a CPU are not supported by FlexAttention."""
    if inputs.dropout:
        return "flex does not support dropout; use kernel='sdpa' or dropout=0"
    if in_forward_ad():
        return "flex does not support forward-mode AD (torch.func.jvp)"
    gradient = inputs.needs_gradient or (inputs.bias is not None and inputs.bias.needs_gradient)
    if inputs.q.device.type == "cpu" and gradient:
        return "flex has no backward pass on a CPU; use kernel='sdpa' or 'banded', or torch.no_grad()"
    return None
