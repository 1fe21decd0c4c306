"""A linear layer followed by GELU, in fewer passes over memory than torch's separate operations make.

In the backward pass torch writes the gradient of GELU and reads it again to sum it for the layer's bias; here the sums
are computed on the way. In the forward pass torch's erf takes longer than reading and writing the tensor; a polynomial
does not.
"""

from __future__ import annotations

import torch
from torch import Tensor

from headway._compile import triton_missing
from headway.ops.kernels.base import capability, in_forward_ad

MIN_ELEMENTS = 2**24  # of the output, below which the launches cost more than they save
MAX_ROWS = 2**22  # a CUDA grid has at most 65,535 programs in its second dimension


def linear_gelu(x: Tensor, weight_FD: Tensor, bias_F: Tensor, *, tanh: bool = False) -> Tensor:
    """gelu(x·weightᵀ + bias): (…, D) -> (…, F), with Φ or with its approximation by tanh."""
    from headway.ops.fused_gelu.launch import fused_linear_gelu  # registering its operators takes time

    return fused_linear_gelu(x, weight_FD, bias_F, tanh=tanh)


def is_faster_for(x: Tensor, bias_F: Tensor) -> bool:
    """Whether gradients are needed, in 16 bits on Hopper or newer, of a tensor large enough to be bound by memory."""
    if not (x.is_cuda and torch.is_grad_enabled() and bias_F.requires_grad) or in_forward_ad():
        return False
    rows = x.numel() // x.shape[-1]
    if rows > MAX_ROWS or rows * bias_F.shape[0] < MIN_ELEMENTS or triton_missing() or capability() < 90:
        return False
    cast = torch.is_autocast_enabled("cuda") and x.dtype != torch.float64  # autocast does not cast float64
    dtype = torch.get_autocast_dtype("cuda") if cast else x.dtype
    return dtype in (torch.bfloat16, torch.float16)
