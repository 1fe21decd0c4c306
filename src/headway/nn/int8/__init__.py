"""Inference in 8 bits on a CPU: `quantise` a model; its linear layers and a decoder's step are then faster."""

from headway.nn.int8.layers import (
    PROCESS_LOCK,
    Int8Head,
    Int8Linear,
    LayerChoice,
    Method,
    fbgemm,
    pack,
    pack_weight,
    quantise,
    supported,
)

__all__ = [
    "PROCESS_LOCK",
    "Int8Head",
    "Int8Linear",
    "LayerChoice",
    "Method",
    "fbgemm",
    "pack",
    "pack_weight",
    "quantise",
    "supported",
]
