"""Counting the levels of images in Triton, as an operator of torch that a compiled step launches like its own."""

# mypy: ignore-errors
from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.library import triton_op, wrap_triton

PART, BLOCK = 16384, 1024  # pixels that a program counts, and how many at once


@triton_op("headway::histograms", mutates_args={})
def counted(images: Tensor, asked_B: Tensor) -> Tensor:
    """Bytes (B, 3, N) -> pixels of each level (B, 3, 256), 0 for images not asked about (B,)."""
    images, asked_B = images.contiguous(), asked_B.contiguous()
    rows, colours, pixels = images.shape
    count = images.new_zeros((rows, colours, 256), dtype=torch.int32)
    if images.numel():
        wrap_triton(count_levels)[(rows * colours, -(-pixels // PART))](
            images, asked_B, count, pixels, colours, PART=PART, BLOCK=BLOCK, num_warps=4
        )
    return count


@triton.jit
def count_levels(images_ptr, asked_ptr, count_ptr, pixels, colours, PART: tl.constexpr, BLOCK: tl.constexpr):
    """PART pixels of one colour of one image, BLOCK at a time, added to what the other parts have."""
    row = tl.program_id(0).to(tl.int64)
    if tl.load(asked_ptr + row // colours):
        first = tl.program_id(1) * PART
        count = tl.zeros([256], tl.int32)
        for start in range(first, tl.minimum(first + PART, pixels), BLOCK):
            at = start + tl.arange(0, BLOCK)
            level = tl.load(images_ptr + row * pixels + at, mask=at < pixels, other=0).to(tl.int32)
            count += tl.histogram(level, 256, mask=at < pixels)
        tl.atomic_add(count_ptr + row * 256 + tl.arange(0, 256), count)
