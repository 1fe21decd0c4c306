"""The parts of a transformer block as TorchScript modules, for one token of each row.

`forward` is the step of rows that have read equally many tokens, `rows` that of rows of unequal length, each of which
attends to its own keys. Both compute what the blocks compute, to the bit.
"""

from __future__ import annotations

from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headway.nn.attention import CrossAttention, SelfAttention
from headway.nn.block import Block
from headway.nn.feedforward import FeedForward, activation_function
from headway.nn.int8.layers import LEVELS, Int8Linear, reduced
from headway.nn.int8.outliers import TINY
from headway.nn.int8.per_row import RowInt8Linear
from headway.nn.norms import FeatureLayerNorm
from headway.ops.kernels import gathered, ragged

ACTIVATIONS = {activation_function(name): name for name in ("relu", "gelu", "gelu_tanh", "silu")}
LINEAR_LAYERS = (Int8Linear, RowInt8Linear)  # exactly these, not their other subclasses


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


class _Linear(nn.Module):
    """A plain 8-bit layer."""

    def __init__(self, layer: Int8Linear) -> None:
        super().__init__()
        self.packed, self.reduced = layer.packed_weight, reduced()

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = torch.ops.quantized.linear_dynamic(x, self.packed, self.reduced)
        return y

    def relu(self, x: Tensor) -> Tensor:
        y: Tensor = torch.ops.quantized.linear_relu_dynamic(x, self.packed, self.reduced)
        return y


class _RowLinear(nn.Module):
    """One with a scale for each row."""

    def __init__(self, layer: RowInt8Linear) -> None:
        super().__init__()
        self.packed, self.bias, self.least = layer.packed_weight, layer.bias, TINY
        self.levels = float(LEVELS // 2 if reduced() else LEVELS)

    def forward(self, x: Tensor) -> Tensor:  # as `outliers.scaled_rows`
        unit = x.abs().amax(-1, keepdim=True).clamp_(min=self.least).div_(self.levels)
        y: Tensor = torch.ops.quantized.linear_with_input_q_dq_qweight_dq_output_fp32(
            x / unit, 1.0, int(self.levels) + 1, self.packed
        )
        y.mul_(unit)
        return y if self.bias is None else y.add_(self.bias)

    def relu(self, x: Tensor) -> Tensor:
        return self.forward(x).relu_()


def _linear(layer: nn.Module) -> _Linear:
    """The part of an 8-bit layer."""
    if isinstance(layer, RowInt8Linear):
        return cast(_Linear, _RowLinear(layer))  # TorchScript knows either by its methods
    assert isinstance(layer, Int8Linear)
    return _Linear(layer)


class _Norm(nn.Module):
    def __init__(self, norm: FeatureLayerNorm) -> None:
        super().__init__()
        self.weight, self.bias, self.eps = norm.weight.detach(), norm.bias.detach(), norm.eps

    def forward(self, x: Tensor) -> Tensor:
        return torch.layer_norm(x, [x.size(2)], self.weight, self.bias, self.eps)


class _Self(nn.Module):
    def __init__(self, part: SelfAttention) -> None:
        super().__init__()
        self.qkv, self.out = _linear(part.qkv), _linear(part.out)
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
        parts = self.qkv(x)
        q, new_k, new_v = parts.view([-1, hypotheses, 3, self.heads, k.size(3)]).permute([2, 0, 3, 1, 4]).unbind(0)
        k.narrow(2, used, hypotheses).copy_(new_k)
        v.narrow(2, used, hypotheses).copy_(new_v)
        k, v = k.narrow(2, 0, used + hypotheses), v.narrow(2, 0, used + hypotheses)
        mixed = step_attention(q, k, v, own, hidden, self.scale).view(x.size())
        out: Tensor = self.out(mixed).view(x.size())
        return out

    def rows(self, x: Tensor, places: Tensor, kv: tuple[Tensor, Tensor], keys: ragged.RaggedIndex) -> Tensor:
        """`places` (N·H,): where each head's new key goes, as `keys` counts them."""
        k, v = kv
        width = k.size(3)
        q, new_k, new_v = self.qkv(x).view([-1, 3, self.heads * width]).unbind(1)
        k.view(-1, width).index_copy_(0, places, new_k.reshape(-1, width))
        v.view(-1, width).index_copy_(0, places, new_v.reshape(-1, width))
        mixed = ragged.ragged_attention(q.reshape(-1, width), k, v, keys, None, self.scale)
        out: Tensor = self.out(mixed.view(x.size()))
        return out


class _Cross(nn.Module):
    def __init__(self, part: CrossAttention) -> None:
        super().__init__()
        self.q, self.out = _linear(part.q), _linear(part.out)
        self.heads, self.scale = part.heads, float(part.scale)

    def forward(
        self,
        x: Tensor,
        hypotheses: int,
        kv: tuple[Tensor, Tensor],
        whole: gathered.KeyIndex | None,
        hidden: Tensor | None,
    ) -> Tensor:
        q = self.q(x).view([-1, hypotheses, self.heads, kv[0].size(3)])
        mixed = step_attention(q.transpose(1, 2), kv[0], kv[1], whole, hidden, self.scale).view(x.size())
        out: Tensor = self.out(mixed).view(x.size())
        return out


class _FeedForward(nn.Module):
    def __init__(self, part: FeedForward) -> None:
        super().__init__()
        self.up, self.down = _linear(part.up), _linear(part.down)
        self.activation = ACTIVATIONS[part.activation]

    def forward(self, x: Tensor) -> Tensor:
        if self.activation == "relu":
            y = self.up.relu(x)
        else:
            y = self.up(x)
            if self.activation == "silu":
                y = F.silu(y)
            else:
                y = F.gelu(y, approximate="tanh" if self.activation == "gelu_tanh" else "none")
        out: Tensor = self.down(y)
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
        return self.fed_forward(x)

    def rows(self, x: Tensor, places: Tensor, kv: tuple[Tensor, Tensor], keys: ragged.RaggedIndex) -> Tensor:
        y = self.attention_norm(x) if self.pre else x
        x = self.attention.rows(y, places, kv, keys).add_(x)
        return self.fed_forward(x if self.pre else self.attention_norm(x))

    def fed_forward(self, x: Tensor) -> Tensor:
        x = self.network(self.network_norm(x) if self.pre else x).add_(x)
        return x if self.pre else self.network_norm(x)


class Layers(nn.Module):
    """The blocks of a stack; see `torchscript_step`."""

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
        """(N·T, 1, D) -> the same; see `TorchScriptStep` for the arguments."""
        for i, layer in enumerate(self.layers):
            x = layer(x, hypotheses, used, kv[i], own, hidden, None if memory is None else memory[i], whole, padding)
        return x

    @torch.jit.export
    def rows(self, x: Tensor, places: Tensor, kv: list[tuple[Tensor, Tensor]], keys: ragged.RaggedIndex) -> Tensor:
        """(N, 1, D) -> the same, for rows of unequal length."""
        for i, layer in enumerate(self.layers):
            x = layer.rows(x, places, kv[i], keys)  # type: ignore[operator]
        return x
