"""`attend`: the one place where attention happens."""

from __future__ import annotations

import torch
from torch import Tensor

from headway.errors import KernelError, ShapeError
from headway.ops.biases import Bias
from headway.ops.check import expect
from headway.ops.kernels import banded, cudnn, flex, reference, sdpa
from headway.ops.kernels import decode as few
from headway.ops.kernels import flash_torch as tiled
from headway.ops.kernels import triton_flash as flash
from headway.ops.kernels import triton_small as short
from headway.ops.kernels.base import Call, Kernel
from headway.ops.kernels.select import choose
from headway.ops.masks import Mask

if torch.version.cuda is not None:  # register the custom operators before torch.compile traces a call to them
    import headway.ops.kernels.triton_flash.launch
    import headway.ops.kernels.triton_small.launch  # noqa: F401

KERNELS: dict[str, Kernel] = {
    "reference": Kernel(reference.run, reference.refuses),
    "sdpa": Kernel(sdpa.run, sdpa.refuses),
    "cudnn": Kernel(cudnn.run, cudnn.refuses),
    "flex": Kernel(flex.run, flex.refuses),
    "banded": Kernel(banded.run, banded.refuses),
    "few": Kernel(few.run, few.refuses),
    "tiled": Kernel(tiled.run, tiled.refuses),
    "flash": Kernel(flash.run, flash.refuses),
    "short": Kernel(short.run, short.refuses),
}


def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    mask: Mask | None = None,
    bias: Bias | None = None,
    scale: float | Tensor | None = None,
    dropout: float = 0.0,
    generator: torch.Generator | None = None,
    kernel: str = "auto",
) -> Tensor:
    """softmax(scale·q·kᵀ + bias) v, where the mask allows.

    q (B, H, T, E), k (B, G, S, E), v (B, G, S, W) with G dividing H -> (B, H, T, W). `scale` is 1/√E unless given: a
    number, or a tensor () or (H,) that may be learned. `dropout` falls on the weights and is drawn from `generator`
    where one is given. A query that may look nowhere gets zeros. Raises ShapeError, KernelError.
    """
    call = checked(q, k, v, mask, bias, scale, dropout, generator)
    if kernel == "auto":
        return KERNELS[choose(call)].run(call)
    if kernel not in KERNELS:
        raise KernelError(f"kernel={kernel!r}, allowed: auto, {', '.join(KERNELS)}")
    if not call.queries or not call.keys:
        return reference.run(call)  # nothing to fuse; the formula has the answer
    if reason := KERNELS[kernel].refuses(call):
        raise KernelError(f"kernel={kernel!r} cannot do this call: {reason}")
    return KERNELS[kernel].run(call)


def attention_weights(
    q: Tensor,
    k: Tensor,
    *,
    mask: Mask | None = None,
    bias: Bias | None = None,
    scale: float | Tensor | None = None,
) -> Tensor:
    """The weights (B, H, T, S) that `attend` would use, whatever kernel it runs on."""
    return reference.weights(checked(q, k, k, mask, bias, scale, 0.0, None))


def checked(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Mask | None,
    bias: Bias | None,
    scale: float | Tensor | None,
    dropout: float,
    generator: torch.Generator | None,
) -> Call:
    """The arguments of `attend` as a kernel takes them. Raises ShapeError where they do not fit."""
    for name, value, kind in (("mask", mask, Mask), ("bias", bias, Bias)):
        if value is not None and not isinstance(value, kind):
            raise ShapeError(f"{name} is a {type(value).__name__}, expected a headway {kind.__name__} such as Causal()")
    sizes: dict[str, int] = {}
    expect(q, "q", "B H T E", sizes)
    expect(k, "k", "B G S E", sizes)
    expect(v, "v", "B G S W", sizes)
    heads, groups = sizes["H"], sizes["G"]
    if not sizes["E"]:
        raise ShapeError(f"q has E=0 in shape {tuple(q.shape)}: a head needs at least one feature")
    if groups == 0 or heads % groups:
        raise ShapeError(f"q has H={heads} heads, k and v have G={groups}: G must divide H")
    if not q.dtype == k.dtype == v.dtype:
        raise ShapeError(f"q, k and v must share one dtype, got {q.dtype}, {k.dtype}, {v.dtype}")
    if not q.is_floating_point():
        raise ShapeError(f"q, k and v are {q.dtype}, expected floating point")
    if generator is not None and generator.device.type != q.device.type:
        raise ShapeError(f"generator is on {generator.device.type}, q on {q.device.type}: dropout needs one device")
    if not 0.0 <= dropout < 1.0:
        raise ShapeError(f"dropout={dropout}, allowed: at least 0 and below 1")
    if mask is not None:
        mask.check(sizes["B"], sizes["T"], sizes["S"])
        if mask.heads not in (1, heads):
            raise ShapeError(f"mask is for {mask.heads} heads (a dilation each), q has H={heads}")
    if bias is not None:
        bias.check(sizes["B"], heads, sizes["T"])
    if isinstance(scale, Tensor):
        if tuple(scale.shape) not in ((), (heads,)):
            raise ShapeError(f"scale has shape {tuple(scale.shape)}, allowed: a number, () or (H={heads},)")
        q, scale = q * scale.to(q.dtype).view(-1, 1, 1), 1.0
    scale = sizes["E"] ** -0.5 if scale is None else scale
    return Call(q, k, v, mask, bias, scale, dropout, generator)
