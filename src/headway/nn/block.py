"""The transformer block: attention, cross-attention where there is a memory, and the position-wise network."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal, get_args

from torch import Tensor, nn

from headway.config import probability
from headway.errors import ConfigError
from headway.nn.attention import AttentionConfig, CrossAttention
from headway.nn.cache import LayerCache
from headway.nn.dropout import Dropout, DropPath
from headway.nn.feedforward import FeedForward, FeedForwardConfig
from headway.nn.norms import LayerNorm, Norm
from headway.nn.positions import Geometry
from headway.nn.taps import Tap
from headway.ops import Mask

Residual = Literal["none", "residual", "dense"]
Place = Literal["pre", "post"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockConfig:
    """How the parts of a block are joined."""

    attention: AttentionConfig
    feedforward: FeedForwardConfig | None
    norm: Norm | None = LayerNorm()
    place: Place = "post"  # post: norm(x + f(x)), the 2017 paper; pre: x + f(norm(x)), GPT-2
    residual: Residual = "residual"
    dropout: float = 0.0  # on what each part adds
    cross: bool = False

    def __post_init__(self) -> None:
        if self.place not in get_args(Place):
            raise ConfigError(f"place={self.place!r}, allowed: {', '.join(get_args(Place))}")
        if self.residual not in get_args(Residual):
            raise ConfigError(f"residual={self.residual!r}, allowed: {', '.join(get_args(Residual))}")
        probability("dropout", self.dropout)
        norm: object = self.norm  # whoever writes Python may hand in anything
        if norm is not None and not isinstance(norm, Norm):
            raise ConfigError(f"norm={norm!r}, allowed: None, LayerNorm, RMSNorm, BatchNorm")
        if self.cross and self.feedforward is not None and self.feedforward.neighbours:
            raise ConfigError(f"neighbours={self.feedforward.neighbours}: in a decoder they would be the future")


class Block(nn.Module):
    """Self-attention, cross-attention (if any), feed-forward (if any), each normalised and added to the stream.

    "dense" residuals join whole blocks and live in the stack; inside the block they mean no addition. `drop_path` is
    how often what a part adds is left out for a whole sample.
    """

    def __init__(self, config: BlockConfig, *, drop_path: float = 0.0) -> None:
        super().__init__()
        width = config.attention.width
        self.pre = config.place == "pre"
        self.adds = config.residual == "residual"
        self.attention = config.attention.build()
        # Relative positions are the self-attention's alone: between two texts a distance means nothing.
        self.cross = CrossAttention(replace(config.attention, shaw=None)) if config.cross else None
        self.feedforward = FeedForward(width, config.feedforward) if config.feedforward else None

        def norm(wanted: object) -> nn.Module | None:
            return config.norm.build(width) if config.norm and wanted is not None else None

        self.attention_norm = norm(self.attention)
        self.cross_norm = norm(self.cross)
        self.feedforward_norm = norm(self.feedforward)
        self.dropout = Dropout(config.dropout)
        self.drop_path = DropPath(drop_path) if drop_path else None
        self.tap_resid_in, self.tap_resid_out = Tap(), Tap()
        self.tap_attn_out, self.tap_cross_out, self.tap_mlp_out = Tap(), Tap(), Tap()

    def forward(
        self,
        x_BTD: Tensor,
        *,
        mask: Mask | None = None,
        geometry: Geometry | None = None,
        cache: LayerCache | None = None,
        used: int = 0,
        memory: tuple[Tensor, Tensor] | None = None,
        memory_mask: Mask | None = None,
        lines: int = 1,
        keep_BT: Tensor | None = None,
    ) -> Tensor:
        """(B, T, D) -> (B, T, D); `memory` holds the cross-attention's keys and values (B / lines, G, S, E)."""

        def attention(y: Tensor) -> Tensor:
            return self.tap_attn_out(self.attention(y, mask=mask, geometry=geometry, cache=cache, used=used))

        x = self.tap_resid_in(x_BTD)
        x = self._join(x, attention, self.attention_norm, keep_BT)
        if self.cross is not None:
            if memory is None:
                raise ConfigError("a block with cross-attention was given no memory to look at")
            look = self.cross

            def cross(y: Tensor) -> Tensor:
                return self.tap_cross_out(look(y, memory, mask=memory_mask, lines=lines))

            x = self._join(x, cross, self.cross_norm, keep_BT)
        if self.feedforward is not None:
            think = self.feedforward
            x = self._join(x, lambda y: self.tap_mlp_out(think(y, keep_BT)), self.feedforward_norm, keep_BT)
        return self.tap_resid_out(x)

    def _join(
        self, x: Tensor, part: Callable[[Tensor], Tensor], norm: nn.Module | None, keep_BT: Tensor | None
    ) -> Tensor:
        y = part(norm(x, keep_BT) if norm is not None and self.pre else x)
        if self.training:
            y = self.dropout(y)
            y = y if self.drop_path is None else self.drop_path(y)
        x = x + y if self.adds else y
        return norm(x, keep_BT) if norm is not None and not self.pre else x
