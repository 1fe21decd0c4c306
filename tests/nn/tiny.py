"""Tiny parts for the tests of `headway.nn`: every position kind by name, small stacks, attention by hand."""

import math
from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor, nn

from headway.nn.attention import AttentionConfig, SelfAttention
from headway.nn.block import BlockConfig
from headway.nn.context import NO_POSITIONS, LayerContext
from headway.nn.feedforward import FeedForwardConfig
from headway.nn.positions import (
    T5,
    AlibiBias,
    EncoderPosition,
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
from headway.nn.stack import Stack, StackConfig

WIDTH, HEADS, CONTEXT = 16, 4, 16

# One number for all features: a norm that takes the mean away takes these with it.
FLAT: dict[str, EncoderPosition] = {
    "raw_index": RawIndex(),
    "fraction": Fraction(),
    "saturating": Saturating(tau=3.0),
    "sine": Sine(),
}
POSITIONS: dict[str, EncoderPosition] = {
    **FLAT,
    "sine_cosine": SineCosine(),
    "sinusoidal": Sinusoidal(),
    "sinusoidal_halves": SinusoidalHalves(),
    "sinusoidal_tensor2tensor": SinusoidalTensor2Tensor(),
    "learned": Learned(),
    "rotary_interleaved": Rotary(),
    "rotary_halves": Rotary(layout="halves"),
    "alibi": AlibiBias(),
    "t5": T5(buckets=8, distance=6),
    "shaw": Shaw(reach=3),
    "shaw_keys_only": Shaw(reach=3, values=False),
}
CONCATENATED: dict[str, EncoderPosition] = {
    f"{name}_concat": replace(POSITIONS[name], concat=4)
    for name in ("raw_index", "sine_cosine", "sinusoidal", "learned")
}
CAUSAL = {**{name: kind for name, kind in POSITIONS.items() if name != "fraction"}, **CONCATENATED}


def scramble(module: nn.Module, std: float = 0.5) -> nn.Module:
    """Give every parameter a random value, also those that start at zero or one and so hide mistakes."""
    for parameter in module.parameters():
        nn.init.normal_(parameter, std=std)
    return module


def attention_config(**changes: object) -> AttentionConfig:
    return replace(AttentionConfig(width=WIDTH, heads=HEADS), **changes)


def block_config(**changes: object) -> BlockConfig:
    feedforward = FeedForwardConfig(inner=12, activation="gelu")
    return replace(BlockConfig(attention=attention_config(), feedforward=feedforward), **changes)


def tiny_stack(
    position: EncoderPosition | None = None,
    *,
    causal: bool = False,
    layers: int = 2,
    context: int = CONTEXT,
    **block: object,
) -> Stack:
    """A stack in float64 with random parameters, evaluating."""
    config = StackConfig(layers=layers, block=block_config(**block), context=context, position=position, causal=causal)
    stack = scramble(Stack(config)).double().eval()
    assert isinstance(stack, Stack)
    return stack


def bare_attention(position: EncoderPosition | None, *, causal: bool = False, **attention: object) -> Stack:
    """One block that is its attention and nothing else."""
    return tiny_stack(
        position,
        causal=causal,
        layers=1,
        attention=attention_config(**attention),
        feedforward=None,
        norm=None,
        residual="none",
    )


def attention_by_hand(
    layer: SelfAttention,
    x_BTD: Tensor,
    *,
    sees: Callable[[int, int], bool] = lambda i, j: True,
    turn: Callable[[Tensor, int], Tensor] = lambda vector, t: vector,
    add: Callable[[int, int, int], Tensor | float] = lambda h, i, j: 0.0,
    to_key: Callable[[int, int], Tensor | float] = lambda i, j: 0.0,
    to_value: Callable[[int, int], Tensor | float] = lambda i, j: 0.0,
) -> Tensor:
    """Self-attention one query at a time: the formula with a hole for every way a position can enter."""
    q, k, v = layer.qkv(x_BTD).split(layer.qkv.parts, -1)
    tokens, width = x_BTD.shape[1], layer.head_width
    share = layer.heads // layer.groups
    out = x_BTD.new_zeros(*x_BTD.shape[:2], layer.heads * width)
    for b in range(x_BTD.shape[0]):
        for h in range(layer.heads):
            mine = slice(h * width, (h + 1) * width)
            group = slice(h // share * width, (h // share + 1) * width)
            for i in range(tokens):
                seen = [j for j in range(tokens) if sees(i, j)]
                query = turn(q[b, i, mine], i)
                scores = torch.stack(
                    [query @ (turn(k[b, j, group], j) + to_key(i, j)) / math.sqrt(width) + add(h, i, j) for j in seen]
                )
                values = torch.stack([v[b, j, group] + to_value(i, j) for j in seen])
                out[b, i, mine] = scores.softmax(0) @ values
    return layer.out(out)


def layer_context(**given: object) -> LayerContext:
    """What a block is given beside its input, without positions inside attention."""
    return LayerContext(positions=NO_POSITIONS, **given)  # type: ignore[arg-type]
