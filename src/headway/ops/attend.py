"""`attend`: the single entry point for attention. It checks the arguments and runs one of the kernels."""

from __future__ import annotations

import torch
from torch import Tensor

from headway.errors import KernelError, ShapeError
from headway.ops.biases import Bias
from headway.ops.check import check_shape
from headway.ops.kernels import (
    banded,
    cudnn,
    decode,
    flash_torch,
    flex,
    planned,
    ragged,
    reference,
    sdpa,
    triton_flash,
    triton_small,
)
from headway.ops.kernels.base import AttentionInputs, Kernel
from headway.ops.kernels.select import choose
from headway.ops.masks import Mask
from headway.ops.planned import planning_gpu

if torch.version.cuda is not None:  # register the custom operators before torch.compile traces a call to them
    from headway.ops.kernels.triton_flash import launch as _flash_launch  # noqa: F401
    from headway.ops.kernels.triton_small import launch as _small_launch  # noqa: F401

KERNELS: dict[str, Kernel] = {  # by the names that configs store
    "reference": Kernel(reference.run, reference.unsupported_reason),
    "sdpa": Kernel(sdpa.run, sdpa.unsupported_reason),
    "cudnn": Kernel(cudnn.run, cudnn.unsupported_reason),
    "flex": Kernel(flex.run, flex.unsupported_reason),
    "banded": Kernel(banded.run, banded.unsupported_reason),
    "few": Kernel(decode.run, decode.unsupported_reason),
    "tiled": Kernel(flash_torch.run, flash_torch.unsupported_reason),
    "flash": Kernel(triton_flash.run, triton_flash.unsupported_reason),
    "short": Kernel(triton_small.run, triton_small.unsupported_reason),
}
# Which a KV cache asks for, and no config: its rows have unequal lengths and must not change each other.
ROW_KERNELS: dict[str, Kernel] = {"ragged": Kernel(ragged.run, ragged.unsupported_reason)}
ALIASES = {"decode": "few", "flash_torch": "tiled", "triton_flash": "flash", "triton_small": "short"}  # module names


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
    """softmax(scale·q·kᵀ + bias) v over the keys the mask allows.

    q (B, H, T, E), k (B, G, S, E), v (B, G, S, W) with G dividing H -> (B, H, T, W). `scale` is 1/√E unless given: a
    number, or a tensor () or (H,) that may be learned. `dropout` applies to the weights and is drawn from `generator`
    if one is given. A query without an allowed key gets zeros. Raises ShapeError, KernelError.
    """
    inputs = checked(q, k, v, mask, bias, scale, dropout, generator)
    if kernel == "auto":
        return planned.run(inputs) if planning_gpu() else KERNELS[choose(inputs)].run(inputs)
    chosen = KERNELS.get(ALIASES.get(kernel, kernel)) or ROW_KERNELS.get(kernel)
    if chosen is None:
        raise KernelError(f"kernel={kernel!r}, allowed: auto, {', '.join(KERNELS)}")
    if not inputs.queries or not inputs.keys:
        return reference.run(inputs)  # an empty sum: no kernel has to support it
    if reason := chosen.unsupported_reason(inputs):
        raise KernelError(f"kernel={kernel!r} does not support these inputs: {reason}")
    return chosen.run(inputs)


def attention_weights(
    q: Tensor,
    k: Tensor,
    *,
    mask: Mask | None = None,
    bias: Bias | None = None,
    scale: float | Tensor | None = None,
) -> Tensor:
    """The attention weights (B, H, T, S) of `attend` without dropout; the same for every kernel."""
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
) -> AttentionInputs:
    """The arguments of `attend` as kernels receive them. Raises ShapeError if they do not fit together."""
    for name, value, kind in (("mask", mask, Mask), ("bias", bias, Bias)):
        if value is not None and not isinstance(value, kind):
            raise ShapeError(f"{name} is a {type(value).__name__}, expected a headway {kind.__name__} such as Causal()")
    sizes: dict[str, int] = {}
    check_shape(q, "q", "B H T E", sizes)
    check_shape(k, "k", "B G S E", sizes)
    check_shape(v, "v", "B G S W", sizes)
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
            raise ShapeError(f"mask is for {mask.heads} heads (one dilation each), q has H={heads}")
    if bias is not None:
        bias.check(sizes["B"], heads, sizes["T"])
    if isinstance(scale, Tensor):
        if tuple(scale.shape) not in ((), (heads,)):
            raise ShapeError(f"scale has shape {tuple(scale.shape)}, allowed: a number, () or (H={heads},)")
        q, scale = q * scale.to(q.dtype).view(-1, 1, 1), 1.0
    scale = sizes["E"] ** -0.5 if scale is None else scale
    return AttentionInputs(q, k, v, mask, bias, scale, dropout, generator)
