"""A linear layer with GELU behind it, in fewer passes over memory than torch makes.

Backwards, torch writes the gradient of GELU and reads it again to sum it for the layer's bias; here the sums are made
on the way. Forwards its erf takes longer than reading and writing the numbers; here a shorter formula does not.
"""

from __future__ import annotations

import torch
from torch import Tensor

from headway._compile import triton_missing
from headway.ops.kernels.base import capability, derives_forwards

LEAST = 2**24  # numbers, below which launching costs more than reading them again
MOST = 2**22  # rows: a GPU numbers no more than 65,535 pieces of them


def linear_gelu(x: Tensor, weight_FD: Tensor, bias_F: Tensor) -> Tensor:
    """gelu(x·weightᵀ + bias): (…, D) -> (…, F)."""
    from headway.ops.fused_gelu.launch import behind  # its operators take a while to register

    return behind(x, weight_FD, bias_F)


def pays(x: Tensor, bias_F: Tensor) -> bool:
    """Are there gradients to be made, in 16 bits, of so many numbers that reading them twice costs time?"""
    if not (x.is_cuda and torch.is_grad_enabled() and bias_F.requires_grad) or derives_forwards():
        return False
    rows = x.numel() // x.shape[-1]
    if rows > MOST or rows * bias_F.shape[0] < LEAST or triton_missing() or capability() < 90:
        return False
    cast = torch.is_autocast_enabled("cuda") and x.dtype != torch.float64  # which autocast leaves alone
    dtype = torch.get_autocast_dtype("cuda") if cast else x.dtype
    return dtype in (torch.bfloat16, torch.float16)
