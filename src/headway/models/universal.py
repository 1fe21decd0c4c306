"""The Universal Transformer: one encoder block, one decoder block, each applied until tokens have thought enough.

Also BERT with such an encoder. What tokens take is data: `ponder` says how many steps each of them did (FACTS §16).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, get_args

import torch
from torch import Tensor

from headway.config import positive, probability
from headway.errors import ConfigError
from headway.models.encoder_decoder import EncoderDecoder
from headway.models.stepper import EncoderInput
from headway.nn.adaptive_computation import Adaptive, Fixed
from headway.nn.attention import AttentionConfig
from headway.nn.block import BlockConfig
from headway.nn.embedding import check_lengths
from headway.nn.feedforward import Activation, FeedForwardConfig
from headway.nn.memory import Memory
from headway.nn.norms import FeatureNorm, LayerNorm, Norm
from headway.nn.universal_stack import LoopConfig, record_steps
from headway.ops import Lengths, Mask, Offset, Window

Sides = Literal["together", "apart"]
Drawn = Literal["once", "every-step"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Offsets:
    """In training the positions of a row begin at a random number, so that long texts hold no position never seen.

    sides: "together" moves source and target alike, so that their difference says what belongs together, as in a copy;
    "apart" moves each by itself. With `jumps` positions also leap ahead, each with this probability, by up to a quarter
    of `most`: then no distance from an end says how many tokens lie between, and none of a long text is new.
    drawn: "once" for all steps of a row; "every-step" anew before each, as tensor2tensor does, so that what a token
    remembers of earlier steps says nothing of where it stands.
    """

    most: int = 400
    sides: Sides = "together"
    jumps: float = 0.0
    drawn: Drawn = "once"

    def __post_init__(self) -> None:
        positive("offsets.most", self.most)
        probability("offsets.jumps", self.jumps)
        if self.sides not in get_args(Sides):
            raise ConfigError(f"offsets.sides={self.sides!r}, allowed: {', '.join(get_args(Sides))}")
        if self.drawn not in get_args(Drawn):
            raise ConfigError(f"offsets.drawn={self.drawn!r}, allowed: {', '.join(get_args(Drawn))}")

    def draw(
        self, rows: int, source: int, target: int, device: torch.device, *, steps: int = 1
    ) -> tuple[Tensor, Tensor]:
        """What to add to the positions of `source` and `target` tokens at each step, (N, B, S) and (N, B, T).

        Drawn once, N is 1. Without jumps a fifth of the rows begins at 0, as all will after training.
        """
        leap, longest = max(self.most // 4, 1), max(source, target)
        times = steps if self.drawn == "every-step" else 1
        least = 0 if self.jumps else -leap
        first = torch.randint(least, self.most + 1, (2, times, rows, 1), device=device).clamp_(min=0)
        shift = first.expand(-1, -1, -1, longest)
        if self.jumps:
            leaps = torch.randint(1, leap + 1, shift.shape, device=device)
            shift = shift + (leaps * (torch.rand(shift.shape, device=device) < self.jumps)).cumsum(-1)
        return shift[0, ..., :source], shift[0 if self.sides == "together" else 1, ..., :target]


@dataclass(frozen=True, slots=True, kw_only=True)
class UniversalConfig:
    """Sizes and parts of a Universal Transformer; the defaults are tensor2tensor's base."""

    vocab: int  # of the target, and of the source unless it has its own
    source_vocab: int | None = None  # None: one matrix serves source, target and output
    width: int = 1024
    heads: int = 16
    inner: int = 4096
    halting: Adaptive | Fixed = Adaptive()
    neighbours: int = 0  # above 0 the encoder's transition is a separable convolution over so many on each side
    window: int | None = None  # how far a token looks among those of its own side; None: to all of them
    offsets: Offsets | None = None  # None: positions begin at 0
    norm: FeatureNorm = LayerNorm()
    activation: Activation = "relu"
    dropout: float = 0.1  # on what each part adds, and on the embedding
    attention_dropout: float = 0.0
    activation_dropout: float = 0.0
    tied: bool = True  # the output matrix is the target embedding
    scaled: bool = True  # words times √D on the way in
    output_bias: bool = False
    kernel: str = "auto"

    def __post_init__(self) -> None:
        if self.window is not None:
            positive("window", self.window)

    @property
    def encoder(self) -> LoopConfig:
        """The encoder's loop."""
        attention = AttentionConfig(
            width=self.width, heads=self.heads, dropout=self.attention_dropout, kernel=self.kernel
        )
        feedforward = FeedForwardConfig(
            inner=self.inner,
            activation=self.activation,
            dropout=self.activation_dropout,
            neighbours=self.neighbours,
        )
        block = BlockConfig(attention=attention, feedforward=feedforward, norm=self.norm, dropout=self.dropout)
        return LoopConfig(block=block, halting=self.halting, dropout=self.dropout)

    @property
    def decoder(self) -> LoopConfig:
        """The decoder's: the same with cross-attention, and no neighbours, of which half would be the future."""
        encoder = replace(self, neighbours=0).encoder
        return replace(encoder, block=replace(encoder.block, cross=True))


@dataclass(frozen=True, slots=True)
class Steps:
    """How many steps each token took: of the source (B, S) and of the target (B, T), 0 in padding."""

    source: Tensor
    target: Tensor


class Universal(EncoderDecoder):
    """Source and target prefix -> logits for each next target token; the depth is a choice, not a size."""

    def __init__(self, config: UniversalConfig) -> None:
        super().__init__(config)
        self.offsets, self.steps = config.offsets, config.halting.steps
        self.near = None if config.window is None else Window(config.window)

    def encode(self, source: EncoderInput, shift_NBS: Tensor | None = None) -> Memory:
        """Read the source: keys and values for every step of the decoder."""
        check_lengths(source.lengths, source.tokens, "source")
        embedding = self.source_embedding or self.target_embedding
        mask: Mask | None = None if source.lengths is None else Lengths(source.lengths)
        if self.near is not None:
            near = self.near.at(0)  # one that goes with this source, and with it what kernels keep there
            mask = near if mask is None else mask & near
        x_BSD = self.encoder(embedding(source.tokens), mask=mask, lengths_B=source.lengths, shift_NBT=shift_NBS)
        return self.decoder.project_memory(x_BSD, source.lengths)

    def features(
        self,
        source_BS: Tensor,
        target_BT: Tensor,
        source_lengths_B: Tensor | None = None,
        target_lengths_B: Tensor | None = None,
    ) -> Tensor:
        """Source (B, S), target prefix (B, T) -> (B, T, D), what the output layer reads."""
        check_lengths(target_lengths_B, target_BT, "target")
        shift_NBS = shift_NBT = None
        if self.training and self.offsets is not None:
            rows, source = source_BS.shape
            shift_NBS, shift_NBT = self.offsets.draw(
                rows, source, target_BT.shape[1], source_BS.device, steps=self.steps
            )
        memory = self.encode(EncoderInput(source_BS, source_lengths_B), shift_NBS)
        embedded = self.target_embedding(target_BT)
        x_BTD: Tensor = self.decoder(
            embedded, mask=self.target_mask(0), lengths_B=target_lengths_B, memory=memory, shift_NBT=shift_NBT
        )
        return x_BTD

    def target_mask(self, offset: Offset) -> Mask:
        """What a target token sees of the target when the first stands at `offset`."""
        causal = super().target_mask(offset)
        return causal if self.near is None else causal & self.near.at(offset)

    @torch.no_grad()
    def ponder(
        self,
        source_BS: Tensor,
        target_BT: Tensor,
        source_lengths_B: Tensor | None = None,
        target_lengths_B: Tensor | None = None,
    ) -> Steps:
        """How long each token of a source (B, S) and a target prefix (B, T) is thought about."""
        with record_steps(self) as records:
            self.features(source_BS, target_BT, source_lengths_B, target_lengths_B)
        encoder, decoder = records
        return Steps(encoder.steps, decoder.steps)


@dataclass(frozen=True, slots=True, kw_only=True)
class UniversalBertConfig:
    """A BERT whose encoder is one block in a loop; no published sizes: the defaults are bert-base's block."""

    vocab: int
    width: int = 768
    heads: int = 12
    inner: int = 3072
    segments: int = 2
    halting: Adaptive | Fixed = Adaptive()
    norm: Norm = LayerNorm(eps=1e-12)
    activation: Activation = "gelu"
    dropout: float = 0.1  # on embeddings, weights and what each part adds
    pooler: bool = True
    init_std: float = 0.02
    kernel: str = "auto"

    @property
    def stack(self) -> LoopConfig:
        """The loop these sizes describe."""
        attention = AttentionConfig(width=self.width, heads=self.heads, dropout=self.dropout, kernel=self.kernel)
        feedforward = FeedForwardConfig(inner=self.inner, activation=self.activation)
        block = BlockConfig(attention=attention, feedforward=feedforward, norm=self.norm, dropout=self.dropout)
        return LoopConfig(block=block, halting=self.halting, dropout=self.dropout)


@dataclass(frozen=True, slots=True, kw_only=True)
class UniversalBertPretrainingConfig:
    """That BERT with its pretraining heads: both, or the masked-token head alone."""

    bert: UniversalBertConfig
    follows: bool = True
    tied: bool = True

    def __post_init__(self) -> None:
        if self.follows and not self.bert.pooler:
            raise ConfigError("next-sentence prediction reads the pooler: bert.pooler=False needs follows=False")
