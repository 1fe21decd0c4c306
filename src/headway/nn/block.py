"""The transformer block: self-attention, cross-attention in a decoder, and the feed-forward network."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, get_args

from torch import Tensor, nn

from headway.config import probability
from headway.errors import ConfigError
from headway.nn.attention import AttentionConfig, CrossAttention
from headway.nn.context import NO_CONTEXT, LayerContext
from headway.nn.dropout import Dropout, DropPath
from headway.nn.feedforward import FeedForward, FeedForwardConfig
from headway.nn.norms import LayerNorm, Norm
from headway.nn.taps import Tap

Residual = Literal["none", "residual", "dense"]
Place = Literal["pre", "post", "sandwich"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockConfig:
    """How the parts of a block are joined."""

    attention: AttentionConfig
    feedforward: FeedForwardConfig | None
    norm: Norm | None = LayerNorm()
    # post: norm(x + f(x)), the 2017 paper; pre: x + f(norm(x)), GPT-2; sandwich: x + norm(f(norm(x))), Gemma 2
    place: Place = "post"
    residual: Residual = "residual"
    dropout: float = 0.0  # on the output of each part
    cross: bool = False

    def __post_init__(self) -> None:
        if self.place not in get_args(Place):
            raise ConfigError(f"place={self.place!r}, allowed: {', '.join(get_args(Place))}")
        if self.residual not in get_args(Residual):
            raise ConfigError(f"residual={self.residual!r}, allowed: {', '.join(get_args(Residual))}")
        probability("dropout", self.dropout)
        norm: object = self.norm  # types are not checked at run time
        if norm is not None and not isinstance(norm, Norm):
            raise ConfigError(f"norm={norm!r}, allowed: None, LayerNorm, RMSNorm, BatchNorm")
        if self.cross and self.feedforward is not None and self.feedforward.neighbours:
            raise ConfigError(f"neighbours={self.feedforward.neighbours}: a decoder must not see later tokens")


class Block(nn.Module):
    """Self-attention, cross-attention (if any), feed-forward (if any), each normalised and added to the stream.

    "dense" residuals connect whole blocks, in the stack; inside the block nothing is added then. `drop_path` is the
    probability with which a part's output is dropped for a whole sample.
    """

    def __init__(self, config: BlockConfig, *, drop_path: float = 0.0) -> None:
        super().__init__()
        width = config.attention.width
        self.pre = config.place != "post"
        self.adds = config.residual == "residual"
        self.attention = config.attention.build()
        # Relative positions are for self-attention only: between two texts a distance means nothing.
        self.cross = CrossAttention(replace(config.attention, shaw=None, qk_norm=None)) if config.cross else None
        self.feedforward = FeedForward(width, config.feedforward) if config.feedforward else None

        def norm(wanted: object) -> nn.Module | None:
            return config.norm.build(width) if config.norm and wanted is not None else None

        self.attention_norm = norm(self.attention)
        self.cross_norm = norm(self.cross)
        self.feedforward_norm = norm(self.feedforward)
        sandwich = config.place == "sandwich"
        self.attention_output_norm = norm(self.attention) if sandwich else None
        self.cross_output_norm = norm(self.cross) if sandwich else None
        self.feedforward_output_norm = norm(self.feedforward) if sandwich else None
        self.dropout = Dropout(config.dropout)
        self.drop_path = DropPath(drop_path) if drop_path else None
        self.tap_resid_in, self.tap_resid_out = Tap(), Tap()
        self.tap_attn_out, self.tap_cross_out, self.tap_mlp_out = Tap(), Tap(), Tap()

    def forward(self, x_BTD: Tensor, context: LayerContext = NO_CONTEXT) -> Tensor:
        """(B, T, D) -> (B, T, D), or (B, output_tokens, D). Raises ConfigError if cross-attention has no memory."""
        real_BT, first = context.real_BT, context.output_tokens
        x = self.tap_resid_in(x_BTD)
        y = self.attention(self._before(x, self.attention_norm, real_BT), context)
        y = self._after(y, self.attention_output_norm, real_BT)
        x = self._add(x if first is None else x[:, :first], self.tap_attn_out(y), self.attention_norm, real_BT)
        if self.cross is not None:
            if context.memory is None:
                raise ConfigError("a block with cross-attention needs a memory, got none")
            y = self.cross(self._before(x, self.cross_norm, real_BT), context.memory)
            y = self._after(y, self.cross_output_norm, real_BT)
            x = self._add(x, self.tap_cross_out(y), self.cross_norm, real_BT)
        if self.feedforward is not None:
            y = self.feedforward(self._before(x, self.feedforward_norm, real_BT), real_BT)
            y = self._after(y, self.feedforward_output_norm, real_BT)
            x = self._add(x, self.tap_mlp_out(y), self.feedforward_norm, real_BT)
        return self.tap_resid_out(x)

    def _before(self, x: Tensor, norm: nn.Module | None, real_BT: Tensor | None) -> Tensor:
        """The input of a part: normalised, in a pre-norm block."""
        return norm(x, real_BT) if norm is not None and self.pre else x

    @staticmethod
    def _after(y: Tensor, norm: nn.Module | None, real_BT: Tensor | None) -> Tensor:
        """The output of a part: normalised before it is added, in a sandwich."""
        return y if norm is None else norm(y, real_BT)

    def _add(self, x: Tensor, y: Tensor, norm: nn.Module | None, real_BT: Tensor | None) -> Tensor:
        """The residual stream x with a part's output y added; normalised, in a post-norm block."""
        if self.training:
            y = self.dropout(y)
            y = y if self.drop_path is None else self.drop_path(y)
        x = x + y if self.adds else y
        return norm(x, real_BT) if norm is not None and not self.pre else x
