"""A stack of blocks with its positions: every transformer here is an embedding, one or two stacks, and a head."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import get_args

import torch
from torch import Tensor, nn

from headway.config import positive, probability
from headway.errors import ConfigError
from headway.nn.beam_cache import sources
from headway.nn.block import Block, BlockConfig
from headway.nn.cache import Cache
from headway.nn.dropout import Dropout, StochasticDepth
from headway.nn.int8 import torchscript_step as scripted
from headway.nn.norms import BatchNorm
from headway.nn.positions import (
    T5,
    Alibi,
    AttentionPositions,
    EncoderPosition,
    Fraction,
    Geometry,
    InputPositions,
    Rotary,
    Shaw,
)
from headway.ops import Lengths, Mask, Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class StackConfig:
    """Layers, the block they repeat, and where tokens stand."""

    layers: int
    block: BlockConfig
    context: int  # the length of a learned position table
    position: EncoderPosition | None = None
    causal: bool = False  # whether queries see only the past; T5's buckets depend on it
    input_norm: bool = False  # BERT normalises the sum of its embeddings
    dropout: float = 0.0  # on the input of the first block
    stochastic_depth: StochasticDepth = StochasticDepth()

    def __post_init__(self) -> None:
        position: object = self.position  # whoever writes Python may hand in anything
        if position is not None and not isinstance(position, EncoderPosition):
            allowed = ", ".join(kind.__name__ for kind in get_args(EncoderPosition))
            raise ConfigError(f"position={position!r}, allowed: None, {allowed}")
        positive("layers", self.layers, least=0)
        positive("context", self.context)
        probability("dropout", self.dropout)
        if self.stochastic_depth.rate and self.block.residual != "residual":
            raise ConfigError(
                f"stochastic_depth with residual={self.block.residual!r}: nothing would be left of a sample"
            )
        if self.causal and isinstance(self.block.norm, BatchNorm):
            raise ConfigError("norm=BatchNorm: in a causal model its statistics would look at the future")
        if self.causal and self.block.feedforward is not None and self.block.feedforward.neighbours:
            raise ConfigError(
                f"neighbours={self.block.feedforward.neighbours}: in a causal model they would be the future"
            )
        if self.causal and isinstance(self.position, Fraction):
            raise ConfigError("position=Fraction: a causal model cannot know the length of a text it has not finished")

    def build(self) -> Stack:
        """The stack of this config."""
        return Stack(self)


@dataclass(frozen=True, slots=True)
class Memory:
    """A source text as a decoder sees it: keys and values of every layer, computed once, and its padding."""

    layers: tuple[tuple[Tensor, Tensor], ...]
    mask: Mask | None
    lines: int = 1  # decoder rows a source, side by side: what a beam's lines share is held, and read, once

    def select(self, rows_B: Tensor) -> Memory:
        """These decoder rows, in this order."""
        kept, lines = sources(rows_B, self.lines) or (rows_B // self.lines, 1)
        if kept.device.type == "cpu" and torch.equal(kept, torch.arange(len(self.layers[0][0]))):
            return replace(self, lines=lines)
        layers = tuple((k[kept], v[kept]) for k, v in self.layers)
        mask = Lengths(self.mask.lengths[kept]) if isinstance(self.mask, Lengths) else self.mask
        return Memory(layers, mask, lines)


class Stack(nn.Module):
    """Positions, then blocks, then a last norm where the blocks normalise before: pre-norm leaves the stream raw."""

    def __init__(self, config: StackConfig) -> None:
        super().__init__()
        block, position, width = config.block, config.position, config.block.attention.width
        self.input_positions: InputPositions | None = None
        self.attention_positions: AttentionPositions | None = None
        if isinstance(position, Rotary | Alibi | T5 | Shaw):
            heads, head_width = block.attention.heads, block.attention.head_width
            self.attention_positions = AttentionPositions(position, heads, head_width, causal=config.causal)
        elif position is not None:
            self.input_positions = InputPositions(position, width, config.context)
        if isinstance(position, Shaw):
            block = replace(block, attention=replace(block.attention, shaw=position))
        mixes_tokens = block.feedforward is not None and block.feedforward.neighbours > 0
        self.tells_padding = isinstance(block.norm, BatchNorm) or mixes_tokens  # nobody else asks which tokens are real
        self.input_norm = block.norm.build(width) if config.input_norm and block.norm else None
        self.dropout = Dropout(config.dropout)
        left_out = config.stochastic_depth.rates(config.layers)
        self.blocks = nn.ModuleList(Block(block, drop_path=rate) for rate in left_out)
        # DenseNet: block k reads the input and everything the k blocks before it gave, mixed back to the width.
        dense = block.residual == "dense"
        self.mixes = nn.ModuleList(nn.Linear((k + 1) * width, width) for k in range(config.layers)) if dense else None
        self.output_norm = block.norm.build(width) if block.place == "pre" and block.norm else None

    def empty_cache(self, capacity: int) -> Cache:
        """A cache for this stack, to be filled by `forward`."""
        position = self.attention_positions.position if self.attention_positions else None
        return Cache.empty(len(self.blocks), capacity, parts=position is None or isinstance(position, Rotary))

    def remember(self, memory_BSD: Tensor, lengths_B: Tensor | None) -> Memory:
        """What the cross-attentions of this stack need of a source."""
        projections = tuple(block.cross.project(memory_BSD) for block in self.blocks)  # type: ignore[operator, union-attr]
        return Memory(projections, None if lengths_B is None else Lengths(lengths_B))

    def forward(
        self,
        x_BTD: Tensor,
        *,
        mask: Mask | tuple[Mask, ...] | None = None,
        lengths_B: Tensor | None = None,
        cache: Cache | None = None,
        memory: Memory | None = None,
        first: int | None = None,
    ) -> Tensor:
        """(B, T, D) -> (B, T, D). With a cache, x holds the tokens after those it has seen.

        The mask is one for all layers, or one a layer. With `first` the last block gives so many tokens alone,
        (B, first, D), which look at all: what nobody reads is not computed.
        """
        count = x_BTD.shape[1]
        offset, positions = standing(count, cache, x_BTD.device)
        used = cache.before(count) if cache else 0
        if self.input_positions is not None:
            x_BTD = self.input_positions(x_BTD, positions, used + count, count if lengths_B is None else lengths_B)
        geometry = self.attention_positions(positions, offset) if self.attention_positions else Geometry(offset)
        geometry = lined(geometry, cache, count)
        keep_BT = None
        if lengths_B is not None and self.tells_padding:
            keep_BT = torch.arange(count, device=x_BTD.device) < lengths_B.unsqueeze(-1)
        if self.input_norm is not None:
            x_BTD = self.input_norm(x_BTD, keep_BT)
        x_BTD = self.dropout(x_BTD)
        stepped = scripted.step(self.blocks, x_BTD, mask=mask, geometry=geometry, cache=cache, memory=memory)
        if stepped is not None:
            return stepped if self.output_norm is None else self.output_norm(stepped, keep_BT)
        seen = [x_BTD]
        for k, block in enumerate(self.blocks):
            x_BTD = block(
                self.mixes[k](torch.cat(seen, -1)) if self.mixes is not None else x_BTD,
                mask=mask[k] if isinstance(mask, tuple) else mask,
                geometry=geometry,
                cache=cache.layers[k] if cache else None,
                used=used,
                memory=memory.layers[k] if memory else None,
                memory_mask=memory.mask if memory else None,
                lines=memory.lines if memory else 1,
                keep_BT=keep_BT,
                first=first if k + 1 == len(self.blocks) else None,
            )
            if self.mixes is not None:
                seen.append(x_BTD)
        if self.output_norm is not None:
            x_BTD = self.output_norm(x_BTD, keep_BT)
        return x_BTD


def standing(count: int, cache: Cache | None, device: torch.device) -> tuple[Offset, Tensor]:
    """Where `count` new tokens begin, and their positions (T,), or (B, T) where rows differ."""
    offset: Offset = cache.length if cache else 0
    steps = torch.arange(count, device=device)
    if isinstance(offset, int) and not offset:
        return offset, steps
    return offset, steps + (offset.unsqueeze(-1) if isinstance(offset, Tensor) and offset.ndim else offset)


def lined(geometry: Geometry, cache: Cache | None, count: int) -> Geometry:
    """The geometry of rows that are lines in a cache; of others, the same."""
    if cache is None or cache.lines is None:
        return geometry
    assert count == 1, "lines take one token at a time: see Cache.ready"
    lines = cache.lines.grown()
    return replace(geometry, lines=lines, own=lines.mask() if geometry.bias is None else None)
