"""Layers with parameters: attention, positions, norms, feed-forward, block, stack, recurrent layers, alignment.

The names here are public; each is imported from its module when it is first used. A part that is chosen by a config is
built by it: `StackConfig(…).build()`, `LayerNorm().build(width)`. docs/parts.md makes a model of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headway._lazy import on_demand

if TYPE_CHECKING:
    from headway.nn.adaptive_computation import Adaptive, Fixed
    from headway.nn.attention import AttentionConfig, CrossAttention, SelfAttention
    from headway.nn.block import Block, BlockConfig
    from headway.nn.cache import KVCache, StaticKVCache
    from headway.nn.context import AttentionContext, LayerContext
    from headway.nn.dropout import Dropout, DropPath, StochasticDepth
    from headway.nn.embedding import Head, TokenEmbedding, TokenEmbeddingConfig
    from headway.nn.feedforward import FeedForward, FeedForwardConfig
    from headway.nn.longformer_attention import GlobalAttention, GlobalAttentionConfig, Windows
    from headway.nn.norms import BatchNorm, LayerNorm, RMSNorm
    from headway.nn.patches import Hybrid, PatchEmbedding, Patches, Shifted
    from headway.nn.positions import (
        T5,
        AlibiBias,
        Fraction,
        Learned,
        RawIndex,
        Rotary,
        Saturating,
        Shaw,
        Sine,
        SineCosine,
        Sinusoidal,
        SinusoidalHalves,
        SinusoidalTensor2Tensor,
    )
    from headway.nn.recurrent import Recurrent, RecurrentConfig
    from headway.nn.rnn_attention import Alignment, AlignmentConfig
    from headway.nn.stack import Stack, StackConfig
    from headway.nn.universal_stack import Loop, LoopConfig

_HOMES = {
    "adaptive_computation": ("Adaptive", "Fixed"),
    "attention": ("AttentionConfig", "CrossAttention", "SelfAttention"),
    "block": ("Block", "BlockConfig"),
    "cache": ("KVCache", "StaticKVCache"),
    "context": ("AttentionContext", "LayerContext"),
    "dropout": ("DropPath", "Dropout", "StochasticDepth"),
    "embedding": ("Head", "TokenEmbedding", "TokenEmbeddingConfig"),
    "feedforward": ("FeedForward", "FeedForwardConfig"),
    "longformer_attention": ("GlobalAttention", "GlobalAttentionConfig", "Windows"),
    "norms": ("BatchNorm", "LayerNorm", "RMSNorm"),
    "patches": ("Hybrid", "PatchEmbedding", "Patches", "Shifted"),
    "positions": (
        "AlibiBias", "Fraction", "Learned", "RawIndex", "Rotary", "Saturating", "Shaw", "Sine", "SineCosine",
        "Sinusoidal", "SinusoidalHalves", "SinusoidalTensor2Tensor", "T5",
    ),
    "recurrent": ("Recurrent", "RecurrentConfig"),
    "rnn_attention": ("Alignment", "AlignmentConfig"),
    "stack": ("Stack", "StackConfig"),
    "universal_stack": ("Loop", "LoopConfig"),
}  # fmt: skip

__getattr__ = on_demand(__name__, {f"{__name__}.{module}": names for module, names in _HOMES.items()})

__all__ = [
    "T5",
    "Adaptive",
    "AlibiBias",
    "Alignment",
    "AlignmentConfig",
    "AttentionConfig",
    "AttentionContext",
    "BatchNorm",
    "Block",
    "BlockConfig",
    "CrossAttention",
    "DropPath",
    "Dropout",
    "FeedForward",
    "FeedForwardConfig",
    "Fixed",
    "Fraction",
    "GlobalAttention",
    "GlobalAttentionConfig",
    "Head",
    "Hybrid",
    "KVCache",
    "LayerContext",
    "LayerNorm",
    "Learned",
    "Loop",
    "LoopConfig",
    "PatchEmbedding",
    "Patches",
    "RMSNorm",
    "RawIndex",
    "Recurrent",
    "RecurrentConfig",
    "Rotary",
    "Saturating",
    "SelfAttention",
    "Shaw",
    "Shifted",
    "Sine",
    "SineCosine",
    "Sinusoidal",
    "SinusoidalHalves",
    "SinusoidalTensor2Tensor",
    "Stack",
    "StackConfig",
    "StaticKVCache",
    "StochasticDepth",
    "TokenEmbedding",
    "TokenEmbeddingConfig",
    "Windows",
]


def __dir__() -> list[str]:
    return __all__
