"""Histograms of images in Triton, as a torch operator that compiled code can call."""

# mypy: ignore-errors
from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.library import triton_op, wrap_triton

PART, BLOCK = 16384, 1024  # pixels per program, and per iteration


@triton_op("headway::histograms", mutates_args={})
def counted(images: Tensor, asked_B: Tensor) -> Tensor:
    """Bytes (B, 3, N) -> counts (B, 3, 256), 0 for images not requested (B,)."""
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
    """Add the histogram of PART pixels of one channel of one image to the counts."""
    row = tl.program_id(0).to(tl.int64)
    if tl.load(asked_ptr + row // colours):
        first = tl.program_id(1) * PART
        count = tl.zeros([256], tl.int32)
        for start in range(first, tl.minimum(first + PART, pixels), BLOCK):
            at = start + tl.arange(0, BLOCK)
            level = tl.load(images_ptr + row * pixels + at, mask=at < pixels, other=0).to(tl.int32)
            count += tl.histogram(level, 256, mask=at < pixels)
        tl.atomic_add(count_ptr + row * 256 + tl.arange(0, 256), count)
