"""The pre-norm stack that an encoder of sounds and a decoder of text are made of, and the config fields it reads."""

from __future__ import annotations

from typing import Protocol

from headway.nn.attention import AttentionConfig
from headway.nn.block import BlockConfig
from headway.nn.feedforward import Activation, FeedForwardConfig
from headway.nn.norms import FeatureNorm
from headway.nn.positions import CausalPosition
from headway.nn.stack import StackConfig


class PreNormSizes(Protocol):
    """The fields of a config that an encoder and a decoder share."""

    @property
    def context(self) -> int: ...
    @property
    def width(self) -> int: ...
    @property
    def heads(self) -> int: ...
    @property
    def inner(self) -> int: ...
    @property
    def position(self) -> CausalPosition | None: ...
    @property
    def norm(self) -> FeatureNorm: ...
    @property
    def activation(self) -> Activation: ...
    @property
    def dropout(self) -> float: ...
    @property
    def kernel(self) -> str: ...


def pre_norm_stack(config: PreNormSizes, layers: int, *, decoder: bool) -> StackConfig:
    """A pre-norm stack; that of a decoder is causal and has cross-attention."""
    block = BlockConfig(
        attention=AttentionConfig(width=config.width, heads=config.heads, kernel=config.kernel),
        feedforward=FeedForwardConfig(inner=config.inner, activation=config.activation, dropout=config.dropout),
        norm=config.norm,
        place="pre",
        dropout=config.dropout,
        cross=decoder,
    )
    return StackConfig(
        layers=layers,
        block=block,
        context=config.context,
        position=config.position,
        causal=decoder,
        dropout=config.dropout,
    )
