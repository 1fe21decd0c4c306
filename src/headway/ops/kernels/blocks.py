"""A mask with a finite band as FlexAttention's blocks, found in time and memory that grow with the band.

torch's own way asks the mask about every pair of tokens. Here only blocks that a band or a global token can touch are
looked at, and these exactly: blocks that are wholly allowed run without a mask.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask

from headway.ops.mask_structure import Shape, shape
from headway.ops.masks import Mask

SIZE = 128
TOGETHER = 512  # blocks looked at in one go


def block_mask(
    mask: Mask, allowed: Callable[..., Tensor], rows: int, heads: int, queries: int, keys: int, device: torch.device
) -> BlockMask:
    """The blocks of a mask that tells `rows` batch rows and `heads` heads apart; `allowed` is its formula."""
    touched = _touched(shape(mask, heads), rows, queries, keys, device)
    partial, full = (torch.zeros(touched.shape, dtype=torch.bool, device=device) for _ in range(2))
    step = torch.arange(SIZE, device=device)
    for part in touched.nonzero().split(TOGETHER):
        b, h, i, j = part.view(-1, 4, 1, 1).unbind(1)
        i, j = i * SIZE + step.view(-1, 1), j * SIZE + step
        real = (i < queries) & (j < keys)
        inside = mask.allowed(b, h, i.clamp(max=queries - 1), j.clamp(max=keys - 1)) & real
        full[tuple(part.T)] = inside.flatten(1).all(1)
        partial[tuple(part.T)] = inside.flatten(1).any(1)
    return BlockMask.from_kv_blocks(
        *_listed(partial & ~full), *_listed(full), BLOCK_SIZE=SIZE, mask_mod=allowed, seq_lengths=(queries, keys)
    )


def _touched(form: Shape, rows: int, queries: int, keys: int, device: torch.device) -> Tensor:
    """(B, H, query blocks, key blocks): what lies in a head's band, or in the row or column of a global token."""
    i = SIZE * torch.arange(-(-queries // SIZE), device=device).view(-1, 1)
    j = SIZE * torch.arange(-(-keys // SIZE), device=device)
    heads = sum(map(len, form.bands.values()))
    touched = torch.zeros(rows, heads, len(i), len(j), dtype=torch.bool, device=device)
    for band, where in form.bands.items():
        touched[:, where] = (j - i + SIZE > band.low) & (j - i - SIZE < band.high)
    if form.apart is not None:
        marks, start = form.apart.marks, form.apart.offset
        touched |= _any_by_block(marks)[:, None, None]
        if form.apart.seeing:
            touched |= _any_by_block(marks[:, start : start + queries])[:, None, :, None]
    return touched


def _any_by_block(marks_BT: Tensor) -> Tensor:
    padded = F.pad(marks_BT, (0, -marks_BT.shape[1] % SIZE))
    return padded.view(len(padded), -1, SIZE).any(-1)


def _listed(blocks: Tensor) -> tuple[Tensor, Tensor]:
    """How many blocks each row has, and which, those first."""
    order = blocks.byte().argsort(dim=-1, descending=True, stable=True)
    return blocks.sum(-1, dtype=torch.int32), order.to(torch.int32)
