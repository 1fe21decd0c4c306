"""The Universal Transformer (Dehghani et al. 2019): one encoder and one decoder block, each applied repeatedly.

Also BERT with such an encoder. With adaptive halting the number of steps depends on the token; `ponder` returns it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, get_args

import torch
from torch import Tensor

from headway.config import positive, probability
from headway.errors import ConfigError
from headway.models.encoder_decoder import EncoderDecoder
from headway.models.inputs import TextSizes
from headway.models.smaller import StackSizes
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

if TYPE_CHECKING:
    from headway.models.bert import Bert, BertPretraining

Sides = Literal["together", "apart"]
Drawn = Literal["once", "every-step"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Offsets:
    """In training the positions of a row start at a random offset, so that longer texts have known positions.

    sides: "together" moves source and target by the same offset, so that their difference still aligns them, as in a
    copy; "apart" moves each by its own. With `jumps` there are also gaps between positions, each with this probability,
    of up to a quarter of `most`: then a distance does not tell the number of tokens between, and large ones are known.
    drawn: "once" for all steps of a row; "every-step" for each step, as tensor2tensor does, so that the state of
    earlier steps does not tell the position.
    """

    most: int = 400  # the largest first position
    sides: Sides = "together"  # whether source and target get the same offset or one each
    jumps: float = 0.0  # the chance of a leap between two tokens, at least 0 and below 1
    drawn: Drawn = "once"  # once for all steps of a row, or anew before each step

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
        """Offsets of the positions of `source` and `target` tokens at each step, (N, B, S) and (N, B, T).

        Drawn once, N is 1. Without jumps a fifth of the rows start at 0, as all do after training.
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
    source_vocab: int | None = None  # none: one matrix serves source, target and output
    width: int = 1024  # features of a token's vector, D
    heads: int = 16  # attention heads; they divide the width
    inner: int = 4096  # features inside the feed-forward network, F
    halting: Adaptive | Fixed = Adaptive()  # how many steps a token takes: adaptive computation time, or a fixed number
    neighbours: int = 0  # above 0 the encoder's transition is a separable convolution, this many tokens to each side
    window: int | None = None  # how far a token looks among those of its own side; none: to all of them
    offsets: Offsets | None = None  # none: positions begin at 0
    norm: FeatureNorm = LayerNorm()  # the normalisation, with its settings
    activation: Activation = "relu"  # of the feed-forward network
    dropout: float = 0.1  # on what each part adds, and on the embedding
    attention_dropout: float = 0.0  # on the attention weights
    activation_dropout: float = 0.0  # inside the transition, behind the activation
    tied: bool = True  # the output matrix is the target embedding
    scaled: bool = True  # multiply embeddings by √D
    output_bias: bool = False  # whether the output layer has a bias
    kernel: str = "auto"  # attention kernel: auto, or a name that ops.attend knows

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
        """The decoder's: the same with cross-attention, and without neighbours, half of which are later tokens."""
        encoder = replace(self, neighbours=0).encoder
        return replace(encoder, block=replace(encoder.block, cross=True))

    def build(self) -> Universal:
        return Universal(self)

    def smaller(self) -> UniversalConfig | None:
        """The next smaller version: narrower, as its layers are one."""
        found = StackSizes(self.width, self.heads, 1, self.inner).smaller()
        return None if found is None else replace(self, width=found.width, heads=found.heads, inner=found.inner)

    @property
    def text(self) -> TextSizes:
        return TextSizes(vocab=self.vocab, source_vocab=self.source_vocab)


@dataclass(frozen=True, slots=True)
class Steps:
    """How many steps each token took: of the source (B, S) and of the target (B, T), 0 in padding."""

    source: Tensor
    target: Tensor


class Universal(EncoderDecoder):
    """Source and target prefix -> logits for each next target token; the number of steps is not part of the weights."""

    title = "universal transformer"

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
            near = self.near.at(0)  # a mask of this source, as kernels cache in it
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
        """What target tokens may attend to in the target, the first of them at position `offset`."""
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
        """The number of steps of each token of a source (B, S) and a target prefix (B, T)."""
        with record_steps(self) as records:
            self.features(source_BS, target_BT, source_lengths_B, target_lengths_B)
        encoder, decoder = records
        return Steps(encoder.steps, decoder.steps)


@dataclass(frozen=True, slots=True, kw_only=True)
class UniversalBertConfig:
    """A BERT whose encoder is a `Loop`. There are no published sizes: the defaults are bert-base's block."""

    vocab: int  # tokens in the vocabulary
    width: int = 768  # features of a token's vector, D
    heads: int = 12  # attention heads; they divide the width
    inner: int = 3072  # features inside the feed-forward network, F
    segments: int = 2  # kinds of segments with an embedding each
    halting: Adaptive | Fixed = Adaptive()  # how many steps a token takes: adaptive computation time, or a fixed number
    norm: Norm = LayerNorm(eps=1e-12)  # the normalisation, with its settings
    activation: Activation = "gelu"  # of the feed-forward network
    dropout: float = 0.1  # on embeddings, weights and what each part adds
    pooler: bool = True  # a dense layer with tanh on the first token, for heads that read a whole text
    init_std: float = 0.02  # standard deviation of the initial weights
    kernel: str = "auto"  # attention kernel: auto, or a name that ops.attend knows

    @property
    def windows(self) -> None:
        """Every step sees the whole text."""

    @property
    def stack(self) -> LoopConfig:
        """The loop these sizes describe."""
        attention = AttentionConfig(width=self.width, heads=self.heads, dropout=self.dropout, kernel=self.kernel)
        feedforward = FeedForwardConfig(inner=self.inner, activation=self.activation)
        block = BlockConfig(attention=attention, feedforward=feedforward, norm=self.norm, dropout=self.dropout)
        return LoopConfig(block=block, halting=self.halting, dropout=self.dropout)

    def build(self) -> Bert:
        from headway.models.bert import Bert

        return Bert(self)

    def smaller(self) -> UniversalBertConfig | None:
        """The next smaller version."""
        found = StackSizes(self.width, self.heads, 1, self.inner).smaller()
        return None if found is None else replace(self, width=found.width, heads=found.heads, inner=found.inner)

    @property
    def text(self) -> TextSizes:
        return TextSizes(vocab=self.vocab, segments=self.segments)


@dataclass(frozen=True, slots=True, kw_only=True)
class UniversalBertPretrainingConfig:
    """This BERT with its pretraining heads: both, or only the masked-token head."""

    bert: UniversalBertConfig  # the encoder
    follows: bool = True  # next-sentence prediction, which reads the pooler
    tied: bool = True  # the masked-token head's matrix is the embedding

    def __post_init__(self) -> None:
        if self.follows and not self.bert.pooler:
            raise ConfigError("next-sentence prediction reads the pooler: bert.pooler=False needs follows=False")

    def build(self) -> BertPretraining:
        from headway.models.bert import BertPretraining

        return BertPretraining(self)

    def smaller(self) -> UniversalBertPretrainingConfig | None:
        """With the next smaller encoder."""
        bert = self.bert.smaller()
        return None if bert is None else replace(self, bert=bert)

    @property
    def text(self) -> TextSizes:
        return self.bert.text.under("bert")

    def check_rows(self, rows: str) -> None:
        """Raise ConfigError for rows of a masked task that the heads cannot be trained on."""
        from headway.models.bert import check_rows

        check_rows(rows, follows=self.follows)
