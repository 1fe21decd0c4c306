"""A stack of blocks with its positional encoding: a transformer is an embedding, one or two stacks, and a head."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol, get_args

import torch
from torch import Tensor, nn

from headway.config import positive, probability
from headway.errors import ConfigError
from headway.nn.beam_cache import BeamKVCache
from headway.nn.block import Block, BlockConfig
from headway.nn.cache import KVCache
from headway.nn.context import NO_POSITIONS, AttentionContext, LayerContext
from headway.nn.dropout import Dropout, StochasticDepth
from headway.nn.memory import Memory
from headway.nn.norms import BatchNorm
from headway.nn.positions import (
    AttentionPosition,
    AttentionPositions,
    EncoderPosition,
    Fraction,
    InputPositions,
    Rotary,
    RotaryPositions,
    Shaw,
)
from headway.ops import Lengths, Mask, Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class StackConfig:
    """A number of layers, the block they repeat, and how positions are encoded."""

    layers: int
    block: BlockConfig
    context: int  # the length of a learned position table
    position: EncoderPosition | None = None
    causal: bool = False  # whether queries see only the past; T5's buckets depend on it
    input_norm: bool = False  # BERT normalises the sum of its embeddings
    first_norm: bool = True  # whether the first block normalises before attention; ModernBERT's input is normalised
    dropout: float = 0.0  # on the input of the first block
    stochastic_depth: StochasticDepth = StochasticDepth()

    def __post_init__(self) -> None:
        position: object = self.position  # types are not checked at run time
        if position is not None and not isinstance(position, EncoderPosition):
            allowed = ", ".join(kind.__name__ for kind in get_args(EncoderPosition))
            raise ConfigError(f"position={position!r}, allowed: None, {allowed}")
        positive("layers", self.layers, least=0)
        positive("context", self.context)
        probability("dropout", self.dropout)
        if self.stochastic_depth.rate and self.block.residual != "residual":
            raise ConfigError(
                f"stochastic_depth with residual={self.block.residual!r}: a dropped sample would be all zeros"
            )
        if self.causal and isinstance(self.block.norm, BatchNorm):
            raise ConfigError("norm=BatchNorm: a causal model must not see later tokens, and its statistics do")
        if self.causal and self.block.feedforward is not None and self.block.feedforward.neighbours:
            raise ConfigError(
                f"neighbours={self.block.feedforward.neighbours}: a causal model must not see later tokens"
            )
        if isinstance(self.position, Rotary) and len(self.position.bases) not in (1, self.layers):
            given = f"position.base has {len(self.position.bases)} values for {self.layers} layers"
            raise ConfigError(f"{given}: one for all or one each")
        if self.causal and isinstance(self.position, Fraction):
            raise ConfigError("position=Fraction: a causal model does not know the length of an unfinished text")

    def build(self) -> Stack:
        """The stack of this config."""
        return Stack(self)


class StepProgram(Protocol):
    """A faster implementation of a decoder's step, installed by `nn.int8.quantise`."""

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
        """What the blocks compute, (B, T, D) -> (B, T, D), to the bit; None if this call is not supported."""
        ...


class Stack(nn.Module):
    """Positions, then blocks, then a last norm if they are pre-norm, which leave the residual stream unnormalised."""

    def __init__(self, config: StackConfig) -> None:
        super().__init__()
        block, position, width = config.block, config.position, config.block.attention.width
        self.input_positions: InputPositions | None = None
        self.attention_positions: AttentionPositions | None = None
        if isinstance(position, AttentionPosition):
            heads, head_width = block.attention.heads, block.attention.head_width
            self.attention_positions = position.build(heads, head_width, causal=config.causal)
        elif position is not None:
            self.input_positions = InputPositions(position, width, config.context)
        if isinstance(position, Shaw):
            block = replace(block, attention=replace(block.attention, shaw=position))
        mixes_tokens = block.feedforward is not None and block.feedforward.neighbours > 0
        self.needs_padding_mask = isinstance(block.norm, BatchNorm) or mixes_tokens
        self.input_norm = block.norm.build(width) if config.input_norm and block.norm else None
        self.dropout = Dropout(config.dropout)
        left_out = config.stochastic_depth.rates(config.layers)
        self.blocks = nn.ModuleList(Block(block, drop_path=rate) for rate in left_out)
        if len(self.blocks) and not config.first_norm:
            setattr(self.blocks[0], "attention_norm", None)  # noqa: B010  # a module list forgets that it holds blocks
        # DenseNet: block k reads the input and the outputs of all blocks before it, projected back to the width.
        dense = block.residual == "dense"
        self.mixes = nn.ModuleList(nn.Linear((k + 1) * width, width) for k in range(config.layers)) if dense else None
        self.output_norm = block.norm.build(width) if block.place != "post" and block.norm else None
        self.step_program: StepProgram | None = None

    def empty_cache(self, capacity: int) -> KVCache:
        """A cache for this stack, to be filled by `forward`."""
        positions = self.attention_positions
        beam = positions is None or isinstance(positions, RotaryPositions)  # a bias depends on where keys are stored
        return (BeamKVCache if beam else KVCache).empty(len(self.blocks), capacity)

    def project_memory(self, memory_BSD: Tensor, lengths_B: Tensor | None) -> Memory:
        """The source's keys and values for each cross-attention of this stack."""
        projections = tuple(block.cross.project(memory_BSD) for block in self.blocks)  # type: ignore[operator, union-attr]
        return Memory(projections, None if lengths_B is None else Lengths(lengths_B))

    def forward(
        self,
        x_BTD: Tensor,
        *,
        mask: Mask | tuple[Mask | None, ...] | None = None,
        lengths_B: Tensor | None = None,
        cache: KVCache | None = None,
        memory: Memory | None = None,
        output_tokens: int | None = None,
    ) -> Tensor:
        """(B, T, D) -> (B, T, D). With a cache, x holds the tokens after those it has seen.

        The mask is one for all layers, or one for each. With `output_tokens` the last block computes only that
        number of first tokens, (B, output_tokens, D), which attend to all.
        """
        count = x_BTD.shape[1]
        offset, positions = position_ids(count, cache, x_BTD.device)
        if self.input_positions is not None:
            furthest = count if cache is None else cache.before(count) + count
            x_BTD = self.input_positions(x_BTD, positions, furthest, count if lengths_B is None else lengths_B)
        layers = len(self.blocks)
        contexts: Sequence[AttentionContext] = [AttentionContext(offset)] * layers
        if self.attention_positions is not None:
            contexts = self.attention_positions.of_layers(positions, offset, layers)
        real_BT = None
        if lengths_B is not None and self.needs_padding_mask:
            real_BT = torch.arange(count, device=x_BTD.device) < lengths_B.unsqueeze(-1)
        if self.input_norm is not None:
            x_BTD = self.input_norm(x_BTD, real_BT)
        x_BTD = self.dropout(x_BTD)
        if cache is not None and self.step_program is not None and layers:
            y = self.step_program(self.blocks, x_BTD, mask=mask, positions=contexts[0], cache=cache, memory=memory)
            if y is not None:
                return self._normalised(y, real_BT)
        caches = None if cache is None else cache.layer_caches(count)
        seen, last = [x_BTD], layers - 1
        for k, block in enumerate(self.blocks):
            layer = LayerContext(
                mask=mask[k] if isinstance(mask, tuple) else mask,
                positions=contexts[k],
                cache=None if caches is None else caches[k],
                memory=None if memory is None else memory.layer(k),
                real_BT=real_BT,
                output_tokens=output_tokens if k == last else None,
            )
            x_BTD = block(x_BTD if self.mixes is None else self.mixes[k](torch.cat(seen, -1)), layer)
            if self.mixes is not None:
                seen.append(x_BTD)
        return self._normalised(x_BTD, real_BT)

    def outputs(self, x_BTD: Tensor, *, memory: Memory | None = None) -> list[Tensor]:
        """What `forward` would give after each block, (B, T, D) each: for losses on every layer.

        Only for a stack without positions and dense residuals. Raises ConfigError for another.
        """
        if self.mixes is not None or self.input_positions is not None or self.attention_positions is not None:
            raise ConfigError("outputs by layer are for a stack without positions and dense residuals")
        x_BTD = self.dropout(x_BTD if self.input_norm is None else self.input_norm(x_BTD, None))
        found: list[Tensor] = []
        for k, block in enumerate(self.blocks):
            layer = None if memory is None else memory.layer(k)
            x_BTD = block(x_BTD, LayerContext(positions=NO_POSITIONS, memory=layer))
            found.append(self._normalised(x_BTD, None))
        return found

    def _normalised(self, x_BTD: Tensor, real_BT: Tensor | None) -> Tensor:
        return x_BTD if self.output_norm is None else self.output_norm(x_BTD, real_BT)


def position_ids(count: int, cache: KVCache | None, device: torch.device) -> tuple[Offset, Tensor]:
    """The position of the first of `count` new tokens, and the positions of all: (T,), or (B, T) where rows differ."""
    offset: Offset = 0 if cache is None else cache.length
    steps = torch.arange(count, device=device)
    if isinstance(offset, int) and not offset:
        return offset, steps
    return offset, steps + (offset.unsqueeze(-1) if isinstance(offset, Tensor) and offset.ndim else offset)
