"""What happens to a token inside a block: each part's output, and the norm around it, for the page to add up again."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from headway.inspection.page.record import ForwardRecord
from headway.inspection.page.tensors import PageTensors
from headway.nn.block import Block
from headway.nn.norms import FeatureLayerNorm, FeatureRMSNorm

PARTS = {"self": "attention_norm", "cross": "cross_norm", "feedforward": "feedforward_norm"}


def block_steps(recording: ForwardRecord, prefix: str, tensors: PageTensors, room: int) -> list[dict[str, Any]] | None:
    """The steps of the block at `prefix` ("decoder.layers.0"): what is added to the stream, and the norm after it.

    Each has the part, its output (T, D), and in a post-norm block the norm. None where a page cannot follow: a block
    that is shared, normalises over a batch or adds nothing, a large page, or no room for so many characters.
    """
    point = next((p for p in recording.every if p.name == f"{prefix}.residual"), None)
    entered = recording.value(f"{prefix}.input")
    if point is None or entered is None or tensors.precision != "float32":
        return None
    block = _block(recording.model, point.module)
    if block is None or not block.adds:
        return None
    found: list[tuple[str, Tensor, nn.Module | None]] = []
    for part, norm in PARTS.items():
        out = recording.value(f"{prefix}.{part}.out")
        if out is None:
            continue
        if out.shape != entered.shape:
            return None
        found.append((part, out, None if block.pre else getattr(block, norm)))
    norms = [norm for _, _, norm in found if norm is not None]
    if not all(isinstance(norm, FeatureLayerNorm) or type(norm) is FeatureRMSNorm for norm in norms):
        return None
    size = sum(tensors.displayed_size(*out.shape) for _, out, _ in found)
    if not found or size + tensors.displayed_size(*entered.shape) > room:
        return None
    first = {"part": "input", "out": tensors.displayed(entered), "norm": None}
    return [first, *({"part": part, "out": tensors.displayed(out), "norm": _norm(norm, tensors)}
                     for part, out, norm in found)]  # fmt: skip


def _block(model: nn.Module, path: str) -> Block | None:
    """The block that a tap is in."""
    module = model.get_submodule(path)
    if isinstance(module, Block):
        return module
    parent = model.get_submodule(path.rpartition(".")[0])
    return parent if isinstance(parent, Block) else None


def _norm(norm: nn.Module | None, tensors: PageTensors) -> dict[str, Any] | None:
    if norm is None:
        return None
    gain, shift = (getattr(norm, name, None) for name in ("weight", "bias"))
    return {
        "kind": "layer" if isinstance(norm, FeatureLayerNorm) else "rms",
        "eps": norm.eps,
        "gain": None if gain is None else tensors.full(gain),
        "shift": None if shift is None else tensors.full(shift),
    }
