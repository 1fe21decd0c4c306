"""Longformer's attention: sliding windows and a few global tokens (Beltagy et al. 2020, section 3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headway import ops
from headway.config import positive
from headway.errors import ConfigError
from headway.nn.attention import GAIN, AttentionConfig, SelfAttention, split_heads
from headway.nn.attention_record import AttentionRecord, GlobalRecord
from headway.nn.cache import AttendArgs
from headway.nn.context import NO_CONTEXT, LayerContext
from headway.nn.linear import FusedLinear
from headway.nn.taps import Tap
from headway.ops import Causal, Lengths, Mask, Window, absorbed_attention
from headway.ops.mask_structure import (
    MarkedTokens,
    QuerySubset,
    global_keys_only,
    globals_of,
    marked_queries,
    mask_of_global_queries,
)

Heads = tuple[Tensor, Tensor, Tensor]  # queries, keys and values, (B, H, …, E)


@dataclass(frozen=True, slots=True, kw_only=True)
class Windows:
    """How far each layer sees. A radius is one-sided: Hugging Face's `attention_window` is twice as much."""

    radius: int | tuple[int | None, ...]  # tokens on each side (causal: back), of all layers or one each; none: all
    dilation: int | tuple[int, ...] = 1  # steps between the tokens seen, of all layers or one a layer
    dilated_heads: int | None = None  # how many heads, the last ones, take those steps; none: all

    def check(self, layers: int, heads: int) -> None:
        """Raise ConfigError unless this fits a model of these sizes."""
        for name, value in (("radius", self.radius), ("dilation", self.dilation)):
            for each in value if isinstance(value, tuple) else (value,):
                if each is not None or name == "dilation":
                    positive(f"windows.{name}", cast(int, each))
            if isinstance(value, tuple) and len(value) != layers:
                raise ConfigError(
                    f"windows.{name} has {len(value)} values for {layers} layers: one for all or one each"
                )
        if self.dilated_heads is not None and not 0 <= self.dilated_heads <= heads:
            raise ConfigError(f"windows.dilated_heads={self.dilated_heads}, allowed: 0 to {heads}, or none for all")

    @property
    def everywhere(self) -> bool:
        """Whether every layer has a window."""
        return not isinstance(self.radius, tuple) or None not in self.radius

    def masks(self, layers: int, heads: int, *, causal: bool = False) -> tuple[Mask | None, ...]:
        """One mask for each layer, or None for one that sees all of a text from both sides.

        Layers with equal windows share one, and what kernels cache in it.
        """
        radii = self.radius if isinstance(self.radius, tuple) else (self.radius,) * layers
        steps = self.dilation if isinstance(self.dilation, tuple) else (self.dilation,) * layers
        whole, ahead = (Causal(), 0) if causal else (None, None)
        masks: list[Mask | None] = [
            whole if radius is None else Window(radius, ahead, self._by_head(step, heads))
            for radius, step in zip(radii, steps, strict=True)
        ]
        shared = {mask: mask for mask in masks}
        return tuple(shared[mask] for mask in masks)

    def _by_head(self, step: int, heads: int) -> int | tuple[int, ...]:
        if self.dilated_heads is None or step == 1:
            return step
        return (*[1] * (heads - self.dilated_heads), *[step] * self.dilated_heads)


@dataclass(frozen=True, slots=True, kw_only=True)
class GlobalAttentionConfig(AttentionConfig):
    """Self-attention in which tokens that a `Global` mask marks have projections of their own."""

    def __post_init__(self) -> None:
        AttentionConfig.__post_init__(self)
        for name in ("kv_heads", "head_dim", "qk_norm", "shaw"):
            if getattr(self, name) is not None:
                raise ConfigError(f"attention with global tokens takes no {name}")

    def build(self) -> GlobalAttention:
        """The attention of these sizes."""
        return GlobalAttention(self)


class GlobalAttention(SelfAttention):
    """Local tokens attend through `qkv`, also to global tokens; global tokens attend to all through `global_*`.

    The mask marks the global tokens: `(Window(w) | Global(marks)) & Lengths(lengths)`. A causal model cannot have any:
    through them earlier tokens would see later ones.
    """

    def __init__(self, config: GlobalAttentionConfig) -> None:
        super().__init__(config)
        width = config.width
        self.global_q = FusedLinear(width, (width,), bias=config.bias, gain=GAIN)
        self.global_kv = FusedLinear(width, (width, width), bias=config.bias, gain=GAIN)
        self.tap_global_q, self.tap_global_k, self.tap_global_v = Tap(), Tap(), Tap()

    @torch.no_grad()
    def copy_local(self) -> None:
        """Initialise the global projections with the local ones, as the paper does."""
        width = self.global_q.out_features
        for kind in ("weight", "bias"):
            local = cast(nn.Parameter | None, getattr(self.qkv, kind))
            if local is not None:
                getattr(self.global_q, kind).copy_(local[:width])
                getattr(self.global_kv, kind).copy_(local[width:])

    def forward(self, x_BTD: Tensor, context: LayerContext = NO_CONTEXT) -> Tensor:
        """(B, T, D) -> (B, T, D). Raises ConfigError for inner positions, a cache or several Global masks."""
        mask, positions = context.mask, context.positions
        tokens = () if mask is None else globals_of(global_keys_only(mask))
        placed = positions.angles is not None or positions.bias is not None
        if placed or context.cache is not None or context.output_tokens is not None:
            raise ConfigError("attention with global tokens reads whole texts, with positions added to the input")
        if mask is None or not tokens:
            return super().forward(x_BTD, context)
        if len(tokens) > 1:
            raise ConfigError(f"a mask with {len(tokens)} Global parts, allowed: one that marks all global tokens")
        marked = marked_queries(tokens[0], x_BTD.shape[1])
        q, k, v = (split_heads(part, self.heads) for part in self.qkv.split(self.qkv(x_BTD)))
        q, k, v = self.tap_q(q), self.tap_k(k), self.tap_v(v)
        if not marked.count:
            return self._join(self._mix(AttendArgs(q, k, v, mask)))
        return self._join(self._two_passes((q, k, v), x_BTD, mask, marked))

    def _two_passes(self, local: Heads, x_BTD: Tensor, mask: Mask, marked: MarkedTokens) -> Tensor:
        """(B, H, T, E): local attention of every token; global tokens' rows are replaced by their global attention."""
        picked_BND = x_BTD.gather(1, marked.index.unsqueeze(-1).expand(-1, -1, x_BTD.shape[2]))
        own_q = self.tap_global_q(split_heads(self.global_q(picked_BND), self.heads))
        own, absorb = self._global_heads(own_q, x_BTD, mask)
        dropout = self.dropout if self.training else 0.0
        if self.tap_weights.observed:
            assert own is not None
            near = ops.attention_weights(*local[:2], mask=mask, scale=self.scale)
            far = ops.attention_weights(*own[:2], mask=QuerySubset(mask, marked.index), scale=self.scale)
            weights, changed = self.tap_weights.passed(marked.scatter(near, far))
            if changed:
                dropped = F.dropout(weights, dropout).to(local[2].dtype)
                x = marked.scatter(dropped @ local[2], marked.gather(dropped) @ own[2])
                return self._recorded(x, local, own, mask, marked, weights)
        # Global tokens' own rows are replaced below: here they need no global keys.
        near = ops.attend(*local, mask=global_keys_only(mask), scale=self.scale, dropout=dropout, kernel=self.kernel)
        if absorb:
            far = self._absorbed(own_q, x_BTD, mask)
        else:  # few queries: every kernel supports them
            assert own is not None
            far = ops.attend(*own, mask=QuerySubset(mask, marked.index), scale=self.scale, dropout=dropout)
        return self._recorded(marked.scatter_(near, far), local, own, mask, marked)

    def _global_heads(self, own_q: Tensor, x_BTD: Tensor, mask: Mask) -> tuple[Heads | None, bool]:
        """Queries, keys and values of global tokens, where needed, and whether keys and values may be absorbed.

        They may be where no hook changes them and no dropout acts on the weights; hooks that only read do not matter.
        """
        visible = mask_of_global_queries(mask)
        absorb = (
            (visible is None or isinstance(visible, Lengths))
            and absorbed_attention.is_faster_for(own_q.shape[2], self.heads, x_BTD.shape[2])
            and isinstance(self.scale, float)
            and not (self.training and self.dropout)
            and isinstance(self.global_kv, FusedLinear)  # 8-bit layers have no weight matrix to absorb
            and self.global_kv.may_be_fused()
        )
        tapped = any(tap.observed for tap in (self.tap_weights, self.tap_global_k, self.tap_global_v))
        if absorb and not tapped and self.on_attention is None:
            return None, True
        k, v = (split_heads(part, self.heads) for part in self.global_kv.split(self.global_kv(x_BTD)))
        (k, other_k), (v, other_v) = self.tap_global_k.passed(k), self.tap_global_v.passed(v)
        return (own_q, k, v), absorb and not (other_k or other_v)

    def _absorbed(self, own_q: Tensor, x_BTD: Tensor, mask: Mask) -> Tensor:
        """(B, H, N, E): attention of global tokens without computing keys and values of all tokens for them."""
        keys_DD, values_DD = self.global_kv.weight.chunk(2)
        bias = None if self.global_kv.bias is None else self.global_kv.bias.chunk(2)[1]
        visible = mask_of_global_queries(mask)
        assert isinstance(self.scale, float)
        assert visible is None or isinstance(visible, Lengths)
        return absorbed_attention.attend_absorbed(
            own_q, x_BTD, keys_DD, values_DD, bias, mask=visible, scale=self.scale
        )

    def _recorded(
        self,
        x_BHTE: Tensor,
        local: Heads,
        own: Heads | None,
        mask: Mask,
        marked: MarkedTokens,
        weights: Tensor | None = None,
    ) -> Tensor:
        """x, after the observer has got its record."""
        if self.on_attention is not None:
            assert own is not None
            q, k, v = local
            record = AttentionRecord(
                kind="self", q=q, k=k, v=v, output=x_BHTE, mask=mask, scale=self.scale, known_weights=weights,
                global_tokens=GlobalRecord(*own, QuerySubset(mask, marked.index), marked),
            )  # fmt: skip
            self.on_attention(record)
        return x_BHTE
