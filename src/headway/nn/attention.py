"""Multi-head attention: projections and positions here, the rest in `ops.attend`."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headway import ops
from headway.config import positive, probability
from headway.errors import ConfigError
from headway.nn.attention_record import AttentionRecord, Kind
from headway.nn.cache import AttendArgs
from headway.nn.context import NO_CONTEXT, LayerContext
from headway.nn.linear import FusedLinear
from headway.nn.memory import LayerMemory
from headway.nn.norms import FeatureNorm
from headway.nn.positions import Shaw
from headway.nn.taps import ObservableAttention, Tap
from headway.ops import Bias, Offset

GAIN = 2**-0.5  # of the Xavier initialisation of queries, keys and values


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionConfig:
    """H heads over a width of D, G of them for keys and values."""

    width: int
    heads: int
    kv_heads: int | None = None  # None: as many as heads
    head_dim: int | None = None  # features of a head, E; None: width / heads
    qk_norm: FeatureNorm | None = None  # of each head's queries and keys, before they are rotated
    bias: bool = True
    out_bias: bool | None = None  # of the output; None: as the others
    dropout: float = 0.0  # on the weights
    scale: float | None = None  # None: 1/√E
    learn_scale: bool = False  # a temperature per head that starts at `scale`
    shaw: Shaw | None = None
    kernel: str = "auto"

    def __post_init__(self) -> None:
        positive("width", self.width)
        positive("heads", self.heads)
        probability("dropout", self.dropout)
        if self.head_dim is not None:
            positive("head_dim", self.head_dim)
        elif self.width % self.heads:
            raise ConfigError(f"width={self.width} is not divisible by heads={self.heads}")
        if self.kv_heads is not None and (self.kv_heads < 1 or self.heads % self.kv_heads):
            raise ConfigError(f"kv_heads={self.kv_heads} does not divide heads={self.heads}")
        if self.kernel not in ("auto", *ops.KERNELS):
            raise ConfigError(f"kernel={self.kernel!r}, allowed: auto, {', '.join(ops.KERNELS)}")

    @property
    def groups(self) -> int:
        """G, the number of key/value heads."""
        return self.heads if self.kv_heads is None else self.kv_heads

    @property
    def head_width(self) -> int:
        """E."""
        return self.width // self.heads if self.head_dim is None else self.head_dim

    def build(self) -> SelfAttention:
        """The self-attention of these sizes."""
        return SelfAttention(self)


def split_heads(x_BTD: Tensor, heads: int) -> Tensor:
    """(B, T, D) -> (B, H, T, E)."""
    rows, steps, width = x_BTD.shape
    return x_BTD.view(rows, steps, heads, width // heads).transpose(1, 2)


class _Attention(ObservableAttention):
    """What self- and cross-attention share: heads in, weighted values out, with taps between."""

    kind: Kind

    def __init__(self, config: AttentionConfig) -> None:
        super().__init__()
        self.width, self.heads, self.groups = config.width, config.heads, config.groups
        self.head_width = config.head_width
        self.dropout, self.kernel = config.dropout, config.kernel
        scale = config.scale if config.scale is not None else config.head_width**-0.5
        self.scale: float | nn.Parameter = scale
        if config.learn_scale:
            self.scale = nn.Parameter(torch.full((config.heads,), scale))
        self.shaw = ShawTables(config.shaw, config.head_width) if config.shaw else None
        bias = config.bias if config.out_bias is None else config.out_bias
        self.out = nn.Linear(config.heads * config.head_width, config.width, bias=bias)
        self.tap_q, self.tap_k, self.tap_v, self.tap_weights, self.tap_heads = (Tap() for _ in range(5))

    def _attend(self, args: AttendArgs) -> Tensor:
        """Attention, heads joined and projected -> (B, T, D)."""
        if args.hypotheses > 1 and self._tapped():  # hooks see one row for each hypothesis
            args = args.per_row()
        args.q, args.k, args.v = self.tap_q(args.q), self.tap_k(args.k), self.tap_v(args.v)
        return args.as_rows(self._join(self._mix(args)))

    def _mix(self, args: AttendArgs) -> Tensor:
        """The weighted sum of the values for each head and query, (B, H, T, E)."""
        kernel = self.kernel
        if (rows := args.separate_rows()) is not None:
            chosen = args.kernel if self.shaw is None and kernel == "auto" else None
            if chosen is None or self._tapped() or self.on_attention is not None:
                return args.joined_rows(list(map(self._mix, rows)))
            kernel = chosen
        q, k, v, mask, bias = args.q, args.k, args.v, args.mask, args.bias
        replaced: Tensor | None = None  # weights that are used as they are, not recomputed by a kernel
        if self.shaw is not None:
            bias = self.shaw.bias(q, self.scale, args.offset)
        dropout = self.dropout if self.training else 0.0
        needed = self.shaw is not None and self.shaw.values is not None
        if needed or self.tap_weights.observed:
            weights = ops.attention_weights(q, k, mask=mask, bias=bias, scale=self.scale)
            weights, changed = self.tap_weights.passed(weights)
            if needed or changed:
                replaced = weights
        if replaced is not None:
            x = self._combine(F.dropout(replaced, dropout), v, args.offset)
        else:  # also if a hook only read the weights: the kernel stays the same
            x = ops.attend(q, k, v, mask=mask, bias=bias, scale=self.scale, dropout=dropout, kernel=kernel)
        if self.on_attention is not None:
            record = AttentionRecord(
                kind=self.kind, q=q, k=k, v=v, output=x, mask=mask, bias=bias, scale=self.scale, offset=args.offset,
                hypotheses=args.hypotheses, key_index=args.key_index, known_weights=replaced,
            )  # fmt: skip
            self.on_attention(record)
        return x

    def _join(self, x_BHTE: Tensor) -> Tensor:
        out: Tensor = self.out(self.tap_heads(x_BHTE).transpose(1, 2).flatten(2))
        return out

    def _tapped(self) -> bool:
        """Whether a hook is registered on one of the taps."""
        return any(tap.observed for tap in (self.tap_q, self.tap_k, self.tap_v, self.tap_weights, self.tap_heads))

    def _combine(self, weights_BHTS: Tensor, v_BGSE: Tensor, offset: Offset) -> Tensor:
        """Σ_j weight_ij·v_j, and Shaw's vectors beside the values -> (B, H, T, E)."""
        x = weights_BHTS.to(v_BGSE.dtype) @ v_BGSE.repeat_interleave(self.heads // self.groups, dim=1)
        if self.shaw is not None and self.shaw.values is not None:
            x = x + self.shaw.weighted(weights_BHTS, offset)
        return x


class SelfAttention(_Attention):
    """Queries, keys and values from one input, in one fused projection."""

    kind: Kind = "self"

    def __init__(self, config: AttentionConfig) -> None:
        super().__init__(config)
        q_width, kv_width = config.heads * config.head_width, config.groups * config.head_width
        self.qkv = FusedLinear(config.width, (q_width, kv_width, kv_width), bias=config.bias, gain=GAIN)
        self.q_norm = None if config.qk_norm is None else config.qk_norm.build(config.head_width)
        self.k_norm = None if config.qk_norm is None else config.qk_norm.build(config.head_width)

    def forward(self, x_BTD: Tensor, context: LayerContext = NO_CONTEXT) -> Tensor:
        """(B, T, D) -> (B, T, D), or (B, output_tokens, D)."""
        positions = context.positions
        q, k, v = self.qkv.split(self.qkv(x_BTD))
        q = q if context.output_tokens is None else q[:, : context.output_tokens]
        q, k, v = split_heads(q, self.heads), split_heads(k, self.groups), split_heads(v, self.groups)
        if self.q_norm is not None and self.k_norm is not None:
            q, k = self.q_norm(q), self.k_norm(k)
        q, k = positions.rotate(q), positions.rotate(k)
        args = AttendArgs(q, k, v, context.mask, positions.bias, positions.offset)
        if context.cache is not None:
            args = context.cache.update(args)
        return self._attend(args)


class CrossAttention(_Attention):
    """Queries from the decoder, keys and values from a memory; no positions: two texts have no distance."""

    kind: Kind = "cross"

    def __init__(self, config: AttentionConfig) -> None:
        super().__init__(config)
        if config.shaw is not None:
            raise ConfigError("cross-attention takes no relative positions (shaw): the two sides are different texts")
        if config.qk_norm is not None:
            raise ConfigError("cross-attention takes no qk_norm, only self-attention does")
        q_width, kv_width = config.heads * config.head_width, config.groups * config.head_width
        self.q = FusedLinear(config.width, (q_width,), bias=config.bias, gain=GAIN)
        self.kv = FusedLinear(config.width, (kv_width, kv_width), bias=config.bias, gain=GAIN)

    def project(self, memory_BSD: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values (B, G, S, E) of the memory: computed once, used at every step."""
        k, v = self.kv.split(self.kv(memory_BSD))
        if torch.is_grad_enabled():
            return split_heads(k, self.groups), split_heads(v, self.groups)
        # Every step of a search reads them: stored once in the order in which they are read.
        return split_heads(k, self.groups).contiguous(), split_heads(v, self.groups).contiguous()

    def forward(self, x_BTD: Tensor, memory: LayerMemory) -> Tensor:
        """(B, T, D) -> (B, T, D)."""
        return self._attend(memory.attend_args(split_heads(self.q(x_BTD), self.heads)))


class ShawTables(nn.Module):
    """Relative position vectors of Shaw et al. 2018, shared by the heads of one layer."""

    def __init__(self, config: Shaw, head_width: int) -> None:
        super().__init__()
        size = (2 * config.reach + 1, head_width)
        self.reach = config.reach
        self.keys = nn.Parameter(torch.empty(size))
        self.values = nn.Parameter(torch.empty(size)) if config.values else None
        for table in self.parameters():
            nn.init.xavier_uniform_(table)

    def bias(self, q_BHTE: Tensor, scale: float | Tensor, offset: Offset) -> Bias:
        """scale·q_i·a_(j-i) as a table (B, H, T, 2·reach + 1) over clipped distances."""
        factor = scale.view(-1, 1, 1) if isinstance(scale, Tensor) else scale
        return ops.Relative((q_BHTE * factor) @ self.keys.mT, offset)

    def weighted(self, weights_BHTS: Tensor, offset: Offset) -> Tensor:
        """Σ_j weight_ij·a_(j-i) -> (B, H, T, E): the weights are summed by distance first."""
        assert self.values is not None
        rows, heads, queries, keys = weights_BHTS.shape
        i = torch.arange(queries, device=weights_BHTS.device)[:, None]
        j = torch.arange(keys, device=weights_BHTS.device)
        start = offset.view(-1, 1, 1) if isinstance(offset, Tensor) and offset.ndim else offset
        slot = (j - i - start).clamp(-self.reach, self.reach) + self.reach  # (T, S) or (B, T, S)
        slot = slot.view(-1, 1, queries, keys).expand(rows, heads, -1, -1)
        sums = weights_BHTS.new_zeros(rows, heads, queries, 2 * self.reach + 1).scatter_add(-1, slot, weights_BHTS)
        return sums.to(self.values.dtype) @ self.values
