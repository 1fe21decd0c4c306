"""A step of an 8-bit decoder in TorchScript: what the blocks of a stack do for one token a row, without Python between.

At the size of a base model a fifth of a step is Python calling small operations. The blocks stay what defines the
model: this is used where nobody looks inside and every part is of a kind known here, and gives the same numbers.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from typing import Any, Protocol
from weakref import WeakKeyDictionary

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules import module

from headway.nn.attention import CrossAttention, SelfAttention
from headway.nn.block import Block
from headway.nn.cache import Cache
from headway.nn.feedforward import FeedForward, activation_function
from headway.nn.int8 import PROCESS, Int8Linear, reduced, supported
from headway.nn.norms import FeatureLayerNorm
from headway.nn.positions import Geometry
from headway.ops import Causal, Mask
from headway.ops.kernels import decode, gathered
from headway.ops.kernels.sdpa import dense

SCRIPTS = sys.version_info < (3, 14)  # beyond, torch has no TorchScript
PAYS = 64  # steps a stack has taken, from which on compiling it pays: it takes as long as some forty steps save
_ACTIVATIONS = {activation_function(name): name for name in ("relu", "gelu", "gelu_tanh", "silu")}


class Memory(Protocol):
    """A source as a stack's blocks see it: `nn.stack.Memory`."""

    @property
    def layers(self) -> tuple[tuple[Tensor, Tensor], ...]: ...
    @property
    def mask(self) -> Mask | None: ...
    @property
    def lines(self) -> int: ...


def attend(
    q: Tensor, k: Tensor, v: Tensor, lists: gathered.KeyIndex | None, hidden: Tensor | None, scale: float
) -> Tensor:
    """q (N, H, T, E), k and v (N, H, S, E) -> all that is mixed, as (N, T, H, E) lies; as the kernel `few` does it."""
    rows, heads, queries, width = q.size(0), q.size(1), q.size(2), q.size(3)
    if lists is not None:
        return gathered.gathered_attention(q.transpose(1, 2).reshape(-1, width), k, v, lists, hidden, scale)
    q = q.reshape(rows * heads, queries, width)
    scores = torch.baddbmm(torch.empty([1, 1, 1]), q, k.flatten(0, 1).transpose(1, 2), beta=0, alpha=scale)
    if hidden is not None:
        scores.view(rows, heads, queries, k.size(2)).masked_fill_(hidden, float("-inf"))
    mixed = torch.bmm(scores.softmax(-1), v.flatten(0, 1)).view(rows, heads, queries, width)
    return mixed.transpose(1, 2).flatten(2)


class _Norm(nn.Module):
    def __init__(self, norm: FeatureLayerNorm) -> None:
        super().__init__()
        self.weight, self.bias, self.eps = norm.weight.detach(), norm.bias.detach(), norm.eps

    def forward(self, x: Tensor) -> Tensor:
        return torch.layer_norm(x, [x.size(2)], self.weight, self.bias, self.eps)


class _Self(nn.Module):
    def __init__(self, part: SelfAttention) -> None:
        super().__init__()
        self.qkv, self.out, self.reduced = part.qkv.ready, part.out.ready, reduced()
        self.heads, self.scale = part.heads, float(part.scale)

    def forward(
        self,
        x: Tensor,
        lines: int,
        used: int,
        kv: tuple[Tensor, Tensor],
        own: gathered.KeyIndex | None,
        hidden: Tensor | None,
    ) -> Tensor:
        k, v = kv
        parts = torch.ops.quantized.linear_dynamic(x, self.qkv, self.reduced)
        q, new_k, new_v = parts.view([-1, lines, 3, self.heads, k.size(3)]).permute([2, 0, 3, 1, 4]).unbind(0)
        k.narrow(2, used, lines).copy_(new_k)
        v.narrow(2, used, lines).copy_(new_v)
        k, v = k.narrow(2, 0, used + lines), v.narrow(2, 0, used + lines)
        mixed = attend(q, k, v, own, hidden, self.scale).view(x.size())
        out: Tensor = torch.ops.quantized.linear_dynamic(mixed, self.out, self.reduced).view(x.size())
        return out


class _Cross(nn.Module):
    def __init__(self, part: CrossAttention) -> None:
        super().__init__()
        self.q, self.out, self.reduced = part.q.ready, part.out.ready, reduced()
        self.heads, self.scale = part.heads, float(part.scale)

    def forward(
        self, x: Tensor, lines: int, kv: tuple[Tensor, Tensor], whole: gathered.KeyIndex | None, hidden: Tensor | None
    ) -> Tensor:
        q = torch.ops.quantized.linear_dynamic(x, self.q, self.reduced).view([-1, lines, self.heads, kv[0].size(3)])
        mixed = attend(q.transpose(1, 2), kv[0], kv[1], whole, hidden, self.scale).view(x.size())
        out: Tensor = torch.ops.quantized.linear_dynamic(mixed, self.out, self.reduced).view(x.size())
        return out


class _Think(nn.Module):
    def __init__(self, part: FeedForward) -> None:
        super().__init__()
        self.up, self.down, self.reduced = part.up.ready, part.down.ready, reduced()
        self.activation = _ACTIVATIONS[part.function]

    def forward(self, x: Tensor) -> Tensor:
        if self.activation == "relu":
            y = torch.ops.quantized.linear_relu_dynamic(x, self.up, self.reduced)
        else:
            y = torch.ops.quantized.linear_dynamic(x, self.up, self.reduced)
            if self.activation == "silu":
                y = F.silu(y)
            else:
                y = F.gelu(y, approximate="tanh" if self.activation == "gelu_tanh" else "none")
        out: Tensor = torch.ops.quantized.linear_dynamic(y, self.down, self.reduced)
        return out


class _Layer(nn.Module):
    def __init__(self, block: Block) -> None:
        super().__init__()
        self.pre = block.pre
        self.look, self.look_norm = _Self(block.attention), _Norm(block.attention_norm)  # type: ignore[arg-type]
        self.cross = None if block.cross is None else _Cross(block.cross)
        self.cross_norm = None if block.cross is None else _Norm(block.cross_norm)  # type: ignore[arg-type]
        self.think, self.think_norm = _Think(block.feedforward), _Norm(block.feedforward_norm)  # type: ignore[arg-type]

    def forward(
        self,
        x: Tensor,
        lines: tuple[int, int],
        used: int,
        kv: tuple[Tensor, Tensor],
        own: gathered.KeyIndex | None,
        hidden: Tensor | None,
        memory: tuple[Tensor, Tensor] | None,
        whole: gathered.KeyIndex | None,
        padding: Tensor | None,
    ) -> Tensor:
        y = self.look_norm(x) if self.pre else x
        x = self.look(y, lines[0], used, kv, own, hidden).add_(x)
        x = x if self.pre else self.look_norm(x)
        if self.cross is not None and self.cross_norm is not None:
            assert memory is not None
            y = self.cross_norm(x) if self.pre else x
            x = self.cross(y, lines[1], memory, whole, padding).add_(x)
            x = x if self.pre else self.cross_norm(x)
        x = self.think(self.think_norm(x) if self.pre else x).add_(x)
        return x if self.pre else self.think_norm(x)


class _Layers(nn.Module):
    def __init__(self, blocks: list[Block]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(_Layer(block) for block in blocks)

    def forward(
        self,
        x: Tensor,
        lines: tuple[int, int],
        used: int,
        kv: list[tuple[Tensor, Tensor]],
        own: gathered.KeyIndex | None,
        hidden: Tensor | None,
        memory: list[tuple[Tensor, Tensor]] | None,
        whole: gathered.KeyIndex | None,
        padding: Tensor | None,
    ) -> Tensor:
        for i, layer in enumerate(self.layers):
            x = layer(x, lines, used, kv[i], own, hidden, None if memory is None else memory[i], whole, padding)
        return x


class Scripted:
    """The blocks of one stack: counted while they step in Python, compiled once it pays."""

    def __init__(self, blocks: list[Block]) -> None:
        self.blocks, self.steps = blocks, 0
        self.layers: Callable[..., Tensor | None] | None = None
        self.hooks = _hooks([part for block in blocks for part in block.modules()])
        self.looks = [look for block in blocks for look in (block.attention, block.cross) if look is not None]

    def step(self, x_B1D: Tensor, geometry: Geometry, cache: Cache, memory: Memory | None) -> Tensor | None:
        """(B, 1, D) through all blocks, or None where they have to be called themselves."""
        self.steps += 1
        lines, used, padding = 1, cache.used, None
        if geometry.lines is not None:
            lines, used = geometry.lines.count, geometry.lines.begin(used)
        both = (lines, 1 if memory is None else memory.lines)
        if self.steps <= PAYS or max(both) > decode.MAX_QUERIES or _heard(self.hooks, self.looks):
            return None
        if memory is not None and memory.mask is not None:
            seen, alive = dense(memory.mask, memory.lines, memory.layers[0][0].shape[2], x_B1D.device)
            if alive is not None:
                return None
            padding = memory.mask.once("hides", lambda: ~seen)
        with PROCESS:  # parts of a batch come here together
            if self.layers is None:
                self.layers = compiled(self.blocks)
        kv = [layer.reach(used + lines, len(x_B1D) // lines) for layer in cache.layers]
        own, hidden = gathered.cached_keys(geometry.own, kv[0][0], used + lines)
        held = whole = None
        if memory is not None:
            held, k = list(memory.layers), memory.layers[0][0]
            whole = gathered.all_keys(both[1], tuple(k.shape), k.stride()) if own is not None else None
        return self.layers(x_B1D, both, used, kv, own, hidden, held, whole, padding)


def compiled(blocks: list[Block]) -> Callable[..., Tensor | None]:
    """The blocks as one program; one that gives None where it cannot be made, as where this file cannot be read."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # they say that TorchScript will go one day, as 8-bit tensors will
        try:
            program: Callable[..., Tensor | None] = torch.jit.script(_Layers(blocks))
        except (RuntimeError, OSError):
            return lambda *_: None
        return program


def _hooks(parts: list[nn.Module]) -> list[dict[int, Any]]:
    """Where whoever listens to these is written down."""
    return [hooks for part in parts for hooks in (part._forward_hooks, part._forward_pre_hooks)]


def _heard(hooks: list[dict[int, Any]], looks: list[SelfAttention | CrossAttention]) -> bool:
    """Does somebody listen to all modules there are, or by one of these hooks, or watch one of these attentions?"""
    everywhere = module._global_forward_hooks or module._global_forward_pre_hooks
    return bool(everywhere) or any(hooks) or any(look.watch is not None for look in looks)


def alone(model: nn.Module) -> bool:
    """Is this a transformer in 8 bits that nobody listens to or watches?"""
    parts = list(model.modules())
    looks = [part for part in parts if isinstance(part, SelfAttention | CrossAttention)]
    return SCRIPTS and supported() and {Block, Int8Linear} <= set(map(type, parts)) and not _heard(_hooks(parts), looks)


_KNOWN: WeakKeyDictionary[nn.Module, Scripted | None] = WeakKeyDictionary()


def step(
    blocks: nn.ModuleList,
    x_BTD: Tensor,
    *,
    mask: object,
    geometry: Geometry,
    cache: Cache | None,
    memory: Memory | None,
) -> Tensor | None:
    """What the blocks make of one token a row, (B, 1, D) -> (B, 1, D); None where they have to be called themselves."""
    plain = type(mask) is Causal and geometry.angles is None and geometry.bias is None
    if cache is None or not plain or x_BTD.shape[1] != 1 or x_BTD.dtype != torch.float32 or torch.is_grad_enabled():
        return None
    if blocks.training or torch.is_autocast_enabled("cpu"):
        return None
    begun = cache.used and not cache.fixed and isinstance(cache.length, int) and len(blocks) > 0
    if not begun or x_BTD.device.type != "cpu" or not isinstance(blocks[0].attention.qkv, Int8Linear):  # type: ignore[union-attr]
        return None
    if blocks not in _KNOWN:
        every = [block for block in blocks if isinstance(block, Block)]
        known = SCRIPTS and supported() and len(every) == len(blocks) and all(map(_known, every))
        _KNOWN[blocks] = Scripted(every) if known else None
    found = _KNOWN[blocks]
    if found is not None and list(map(id, found.blocks)) != list(map(id, blocks)):
        del _KNOWN[blocks]  # somebody put another block in
        return None
    return None if found is None else found.step(x_BTD, geometry, cache, memory)


def _known(block: Block) -> bool:
    """Is every part of a kind that is written out here?"""
    think, norms = block.feedforward, [block.attention_norm, block.feedforward_norm]
    if type(block.attention) is not SelfAttention or think is None or think.gated or think.taps is not None:
        return False
    looks: list[SelfAttention | CrossAttention] = [block.attention]
    linear: list[nn.Module] = [block.attention.qkv, think.up, think.down]
    if block.cross is not None:
        looks.append(block.cross)
        linear.append(block.cross.q)
        norms.append(block.cross_norm)
    linear += [look.out for look in looks]
    simple = all(
        look.groups == look.heads and look.shaw is None and isinstance(look.scale, float) and look.kernel == "auto"
        for look in looks
    )
    normed = all(isinstance(norm, FeatureLayerNorm) and norm.bias is not None for norm in norms)
    eight = all(isinstance(part, Int8Linear) and part.ready is not None for part in linear)
    return block.adds and simple and normed and eight and think.function in _ACTIVATIONS
