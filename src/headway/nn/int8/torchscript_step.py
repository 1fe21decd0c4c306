"""The decoder step of an 8-bit model as one TorchScript program: the blocks of a stack for one token per row.

In a model of base size a fifth of a step is Python calling small operations. The blocks stay the definition of the
model: the program is used where no hook or observer is registered and all parts are of the kinds below, and gives the
same numbers to the bit. `nn.int8.quantise` installs it; without TorchScript (Python 3.14 and later) it does not, and
the blocks are called as ever.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headway.nn.attention import CrossAttention, SelfAttention
from headway.nn.block import Block
from headway.nn.cache import KVCache
from headway.nn.context import AttentionContext
from headway.nn.feedforward import FeedForward, activation_function
from headway.nn.int8 import layers
from headway.nn.int8.layers import PROCESS_LOCK, Int8Linear, reduced, supported
from headway.nn.int8.outliers import OutlierInt8Linear
from headway.nn.memory import Memory
from headway.nn.norms import FeatureLayerNorm
from headway.nn.taps import Observers, observed
from headway.ops import Causal
from headway.ops.kernels import decode, gathered
from headway.ops.kernels.sdpa import dense

COMPILE_AFTER_STEPS = 64  # compiling takes as long as some forty steps save
_ACTIVATIONS = {activation_function(name): name for name in ("relu", "gelu", "gelu_tanh", "silu")}


def step_attention(
    q: Tensor, k: Tensor, v: Tensor, lists: gathered.KeyIndex | None, hidden: Tensor | None, scale: float
) -> Tensor:
    """q (N, H, T, E), k and v (N, H, S, E) -> weighted values in the memory order of (N, T, H, E), as kernel `few`."""
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
        self.qkv, self.out, self.reduced = part.qkv.packed_weight, part.out.packed_weight, reduced()
        self.heads, self.scale = part.heads, float(part.scale)

    def forward(
        self,
        x: Tensor,
        hypotheses: int,
        used: int,
        kv: tuple[Tensor, Tensor],
        own: gathered.KeyIndex | None,
        hidden: Tensor | None,
    ) -> Tensor:
        k, v = kv
        parts = torch.ops.quantized.linear_dynamic(x, self.qkv, self.reduced)
        q, new_k, new_v = parts.view([-1, hypotheses, 3, self.heads, k.size(3)]).permute([2, 0, 3, 1, 4]).unbind(0)
        k.narrow(2, used, hypotheses).copy_(new_k)
        v.narrow(2, used, hypotheses).copy_(new_v)
        k, v = k.narrow(2, 0, used + hypotheses), v.narrow(2, 0, used + hypotheses)
        mixed = step_attention(q, k, v, own, hidden, self.scale).view(x.size())
        out: Tensor = torch.ops.quantized.linear_dynamic(mixed, self.out, self.reduced).view(x.size())
        return out


class _Cross(nn.Module):
    def __init__(self, part: CrossAttention) -> None:
        super().__init__()
        self.q, self.out, self.reduced = part.q.packed_weight, part.out.packed_weight, reduced()
        self.heads, self.scale = part.heads, float(part.scale)

    def forward(
        self,
        x: Tensor,
        hypotheses: int,
        kv: tuple[Tensor, Tensor],
        whole: gathered.KeyIndex | None,
        hidden: Tensor | None,
    ) -> Tensor:
        q = torch.ops.quantized.linear_dynamic(x, self.q, self.reduced).view(
            [-1, hypotheses, self.heads, kv[0].size(3)]
        )
        mixed = step_attention(q.transpose(1, 2), kv[0], kv[1], whole, hidden, self.scale).view(x.size())
        out: Tensor = torch.ops.quantized.linear_dynamic(mixed, self.out, self.reduced).view(x.size())
        return out


class _FeedForward(nn.Module):
    def __init__(self, part: FeedForward) -> None:
        super().__init__()
        self.up, self.down, self.reduced = part.up.packed_weight, part.down.packed_weight, reduced()
        self.activation = _ACTIVATIONS[part.activation]

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
        self.attention, self.attention_norm = _Self(block.attention), _Norm(block.attention_norm)  # type: ignore[arg-type]
        self.cross = None if block.cross is None else _Cross(block.cross)
        self.cross_norm = None if block.cross is None else _Norm(block.cross_norm)  # type: ignore[arg-type]
        self.network, self.network_norm = _FeedForward(block.feedforward), _Norm(block.feedforward_norm)  # type: ignore[arg-type]

    def forward(
        self,
        x: Tensor,
        hypotheses: tuple[int, int],
        used: int,
        kv: tuple[Tensor, Tensor],
        own: gathered.KeyIndex | None,
        hidden: Tensor | None,
        memory: tuple[Tensor, Tensor] | None,
        whole: gathered.KeyIndex | None,
        padding: Tensor | None,
    ) -> Tensor:
        y = self.attention_norm(x) if self.pre else x
        x = self.attention(y, hypotheses[0], used, kv, own, hidden).add_(x)
        x = x if self.pre else self.attention_norm(x)
        if self.cross is not None and self.cross_norm is not None:
            assert memory is not None
            y = self.cross_norm(x) if self.pre else x
            x = self.cross(y, hypotheses[1], memory, whole, padding).add_(x)
            x = x if self.pre else self.cross_norm(x)
        x = self.network(self.network_norm(x) if self.pre else x).add_(x)
        return x if self.pre else self.network_norm(x)


class _Layers(nn.Module):
    def __init__(self, blocks: list[nn.Module]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(_Layer(block) for block in blocks if isinstance(block, Block))

    def forward(
        self,
        x: Tensor,
        hypotheses: tuple[int, int],
        used: int,
        kv: list[tuple[Tensor, Tensor]],
        own: gathered.KeyIndex | None,
        hidden: Tensor | None,
        memory: list[tuple[Tensor, Tensor]] | None,
        whole: gathered.KeyIndex | None,
        padding: Tensor | None,
    ) -> Tensor:
        for i, layer in enumerate(self.layers):
            x = layer(x, hypotheses, used, kv[i], own, hidden, None if memory is None else memory[i], whole, padding)
        return x


class TorchScriptStep:
    """The step program of one stack: counts the steps it could take, and compiles the blocks once that pays."""

    def __init__(self) -> None:
        self.steps = 0
        self.blocks: list[nn.Module] = []  # for which the rest was determined
        self.supported = False
        self.observers: Observers | None = None
        self.program: Callable[..., Tensor | None] | None = None

    def __reduce__(self) -> tuple[type[TorchScriptStep], tuple[()]]:
        return TorchScriptStep, ()  # a copy of the model compiles its own

    def __call__(
        self,
        blocks: nn.ModuleList,
        x_BTD: Tensor,
        *,
        mask: object,
        positions: AttentionContext,
        cache: KVCache,
        memory: Memory | None,
    ) -> Tensor | None:
        """(B, 1, D) -> (B, 1, D); None where the blocks have to be called themselves."""
        plain = type(mask) is Causal and positions.angles is None and positions.bias is None
        if not plain or x_BTD.shape[1] != 1 or x_BTD.dtype != torch.float32 or torch.is_grad_enabled():
            return None
        if blocks.training or torch.is_autocast_enabled("cpu"):
            return None
        if not cache.used or not isinstance(cache.length, int) or not len(blocks) or x_BTD.device.type != "cpu":
            return None
        if not self._knows(blocks):
            with PROCESS_LOCK:  # the parts of a batch arrive here at the same time
                if not self._knows(blocks):
                    self._examine(blocks)
        return self.step(x_BTD, cache, memory) if self.supported else None

    def _knows(self, blocks: nn.ModuleList) -> bool:
        return list(map(id, self.blocks)) == list(map(id, blocks))

    def _examine(self, blocks: nn.ModuleList) -> None:
        """Note the blocks; a program of others is forgotten."""
        self.supported = all(isinstance(block, Block) and _is_supported(block) for block in blocks)
        self.observers = Observers(blocks)
        self.program, self.blocks = None, list(blocks)

    def step(self, x_B1D: Tensor, cache: KVCache, memory: Memory | None) -> Tensor | None:
        """(B, 1, D) through all blocks, or None where they have to be called themselves."""
        self.steps += 1
        if self.steps <= COMPILE_AFTER_STEPS or self.observers:
            return None
        caches = cache.layer_caches(1)
        first = caches[0]
        hypotheses = (first.hypotheses, 1 if memory is None else memory.hypotheses)
        if max(hypotheses) > decode.MAX_QUERIES:
            return None
        padding = None
        if memory is not None and memory.mask is not None:
            seen, alive = dense(memory.mask, memory.hypotheses, memory.layers[0][0].shape[2], x_B1D.device)
            if alive is not None:
                return None
            padding = memory.mask.once("hides", lambda: ~seen)
        with PROCESS_LOCK:
            if self.program is None:
                self.program = compiled(self.blocks)
        count, used = hypotheses[0], first.at
        assert isinstance(used, int)
        kv = [layer.buffers.reserve(used + count, len(x_B1D) // count) for layer in caches]
        own, hidden = gathered.cached_keys(first.visible, kv[0][0], used + count)
        held = whole = None
        if memory is not None:
            held, k = list(memory.layers), memory.layers[0][0]
            whole = gathered.all_keys(hypotheses[1], tuple(k.shape), k.stride()) if own is not None else None
        return self.program(x_B1D, hypotheses, used, kv, own, hidden, held, whole, padding)


def compiled(blocks: list[nn.Module]) -> Callable[..., Tensor | None]:
    """The blocks as one program; one that returns None where TorchScript fails, as without this file's source."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # TorchScript's deprecation
        try:
            program: Callable[..., Tensor | None] = torch.jit.script(_Layers(blocks))
        except (RuntimeError, OSError):
            return lambda *_: None
        return program


def steps_in_torchscript(model: nn.Module) -> bool:
    """Whether this is a transformer in 8 bits, without hooks and observers, on a machine that has such programs."""
    parts = set(map(type, model.modules()))
    plain = {Block, Int8Linear} <= parts and not any(issubclass(part, nn.Linear | OutlierInt8Linear) for part in parts)
    return layers.TORCHSCRIPT and supported() and plain and not observed(model, inside=True)


def _is_supported(block: Block) -> bool:
    """Whether every part is of a kind that has an equivalent above."""
    network, norms = block.feedforward, [block.attention_norm, block.feedforward_norm]
    if type(block.attention) is not SelfAttention or network is None:
        return False
    attentions: list[SelfAttention | CrossAttention] = [block.attention]
    linear: list[nn.Module] = [block.attention.qkv, network.up, network.down]
    if block.cross is not None:
        attentions.append(block.cross)
        linear.append(block.cross.q)
        norms.append(block.cross_norm)
    linear += [attention.out for attention in attentions]
    if block.attention.q_norm is not None or block.attention_output_norm is not None:
        return False
    simple = all(
        attention.groups == attention.heads
        and attention.heads * attention.head_width == attention.width
        and attention.shaw is None
        and isinstance(attention.scale, float)
        and attention.kernel == "auto"
        for attention in attentions
    )
    normed = all(isinstance(norm, FeatureLayerNorm) and norm.bias is not None for norm in norms)
    packed = all(type(part) is Int8Linear and part.packed_weight is not None for part in linear)
    plain = network.neighbour_weights is None and network.activation in _ACTIVATIONS
    return block.adds and simple and normed and packed and plain
