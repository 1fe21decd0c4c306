"""The decoder step of a GPT on a GPU in five kernels a layer, for a few rows, where launching outlasts computing.

A norm is computed by every program of the product that follows it, and bias, activation and residual are added where
the product ends. `installed` makes a stack use it, for the time in which a step is recorded as a CUDA graph.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from headway._compile import triton_missing
from headway.nn.attention import SelfAttention
from headway.nn.block import Block
from headway.nn.cache import KVCache, StaticKVCache
from headway.nn.context import AttentionContext
from headway.nn.feedforward import FeedForward, activation_function
from headway.nn.memory import Memory
from headway.nn.norms import FeatureLayerNorm, FeatureRMSNorm
from headway.nn.stack import Stack
from headway.ops import Causal

MAX_ROWS = 4  # with more, matrix products of a library are faster
MAX_WIDTH = 8192  # of a product's input, which a program holds as a whole
ACTIVATIONS = {activation_function(name): name for name in ("relu", "gelu", "gelu_tanh", "silu")}


class TritonStep:
    """Computes the blocks of a stack for one token per row; the `step_program` of a stack."""

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
        """What the blocks compute, (B, 1, D) -> (B, 1, D), to rounding; None if this call is not supported."""
        step = x_BTD.shape[1] == 1 and len(x_BTD) <= MAX_ROWS and isinstance(cache, StaticKVCache)
        plain = positions.angles is None and positions.bias is None and memory is None and type(mask) is Causal
        if not step or not plain:
            return None
        from headway.nn.triton_step.launch import block_step  # importing Triton takes time

        assert isinstance(cache, StaticKVCache)
        assert isinstance(cache.length, Tensor)
        x_BD = x_BTD.squeeze(1)
        for block, buffers in zip(blocks, cache.layers, strict=True):
            assert isinstance(block, Block)
            x_BD = block_step(block, x_BD, buffers, cache.length)
        return x_BD.unsqueeze(1)


@contextmanager
def installed(stack: Stack, rows: int) -> Iterator[None]:
    """While open, the stack computes steps of this many rows by `TritonStep`, if all its blocks are supported."""
    if stack.step_program is not None or rows > MAX_ROWS or not supported(stack):
        yield
        return
    stack.step_program = TritonStep()
    try:
        yield
    finally:
        stack.step_program = None


def supported(stack: Stack) -> bool:
    """Whether all blocks are of the parts that the kernels compute, and Triton is installed."""
    return not triton_missing() and stack.mixes is None and all(_supported(block) for block in stack.blocks)


def _supported(block: nn.Module) -> bool:
    if not isinstance(block, Block) or not block.pre or not block.adds or block.cross is not None:
        return False
    attention, feedforward = block.attention, block.feedforward
    if type(attention) is not SelfAttention or type(feedforward) is not FeedForward:
        return False
    norms = (block.attention_norm, block.feedforward_norm)
    outputs = (block.attention_output_norm, block.feedforward_output_norm, attention.q_norm, attention.k_norm)
    linears = (attention.qkv, attention.out, feedforward.up, feedforward.down)
    return (
        all(type(norm) in (FeatureLayerNorm, FeatureRMSNorm) for norm in norms)
        and all(part is None for part in (*outputs, attention.shaw, feedforward.neighbour_weights))
        and all(isinstance(part, nn.Linear) and part.in_features <= MAX_WIDTH for part in linears)
        and isinstance(attention.scale, float)
        and not feedforward.gated
        and feedforward.activation in ACTIVATIONS
        and len({part.weight.dtype for part in linears}) == 1
        and linears[0].weight.dtype in (torch.float32, torch.bfloat16, torch.float16)
    )
