"""The encoder-decoder transformer (Vaswani et al. 2017)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import torch
from torch import Tensor, nn

from headway.config import positive
from headway.errors import ConfigError
from headway.models.inputs import Model, ModelInputs, ModelOutputs, TextSizes
from headway.models.smaller import StackSizes
from headway.models.stepper import EncoderInput, SourceAttention
from headway.nn.attention import AttentionConfig
from headway.nn.block import BlockConfig, Place
from headway.nn.cache import KVCache
from headway.nn.embedding import Head, TokenEmbedding, TokenEmbeddingConfig, check_lengths
from headway.nn.feedforward import Activation, FeedForwardConfig
from headway.nn.joint_cache import JointKVCache, JointMemory
from headway.nn.linear import xavier_init
from headway.nn.memory import Memory
from headway.nn.norms import FeatureNorm, LayerNorm
from headway.nn.positions import CausalPosition, Sinusoidal
from headway.nn.stack import Stack, StackConfig
from headway.nn.universal_stack import LoopConfig
from headway.ops import Causal, Lengths, Mask, Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class EncoderDecoderConfig:
    """Sizes and parts of an encoder-decoder; the defaults are the paper's base model (section 3, table 3)."""

    vocab: int  # of the target, and of the source unless it has its own
    source_vocab: int | None = None  # none: one matrix serves source, target and output
    context: int = 1024  # for learned positions only
    width: int = 512  # features of a token's vector, D
    encoder_layers: int = 6  # blocks in the encoder
    decoder_layers: int = 6  # blocks in the decoder
    heads: int = 8  # attention heads; they divide the width
    head_dim: int | None = None  # features of a head; none: width / heads
    inner: int = 2048  # features inside the feed-forward network, F
    position: CausalPosition | None = Sinusoidal()  # how positions are encoded; none: no positions
    norm: FeatureNorm = LayerNorm()  # the normalisation, with its settings
    # where a block normalises: "post", after adding (2017 paper), or "pre", before each part (GPT-2)
    place: Place = "post"
    scale: float | None = None  # of attention scores; none: 1/√(features of a head); T5 has 1
    activation: Activation = "relu"  # of the feed-forward network
    bias: bool = True  # in the linear layers
    dropout: float = 0.1  # on what each part adds, and on embedding plus position
    attention_dropout: float = 0.0  # none in the paper; tensor2tensor has 0.1 here and in the feed-forward
    activation_dropout: float = 0.0  # inside the feed-forward network, behind the activation
    tied: bool = True  # the output matrix is the target embedding
    scaled: bool = True  # multiply embeddings by √D; BART does not
    input_norm: bool = False  # BART normalises the sum of word and position
    output_bias: bool = False  # Marian's and BART's output has one
    kernel: str = "auto"  # attention kernel: auto, or a name that ops.attend knows

    def __post_init__(self) -> None:
        positive("decoder_layers", self.decoder_layers)  # the memory of a decoding is that of its layers

    @property
    def encoder(self) -> StackConfig:
        """The encoder's stack."""
        attention = AttentionConfig(
            width=self.width,
            heads=self.heads,
            head_dim=self.head_dim,
            bias=self.bias,
            scale=self.scale,
            dropout=self.attention_dropout,
            kernel=self.kernel,
        )
        feedforward = FeedForwardConfig(
            inner=self.inner, activation=self.activation, bias=self.bias, dropout=self.activation_dropout
        )
        block = BlockConfig(
            attention=attention,
            feedforward=feedforward,
            norm=self.norm,
            place=self.place,
            dropout=self.dropout,
        )
        return StackConfig(
            layers=self.encoder_layers,
            block=block,
            context=self.context,
            position=self.position,
            input_norm=self.input_norm,
            dropout=self.dropout,
        )

    @property
    def decoder(self) -> StackConfig:
        """The decoder's stack: the encoder's block with cross-attention, its queries seeing only the past."""
        encoder = self.encoder
        return replace(encoder, layers=self.decoder_layers, block=replace(encoder.block, cross=True), causal=True)

    def build(self) -> EncoderDecoder:
        return EncoderDecoder(self)

    def smaller(self) -> EncoderDecoderConfig | None:
        """The next smaller version, both sides alike."""
        found = StackSizes(self.width, self.heads, max(self.encoder_layers, self.decoder_layers), self.inner).smaller()
        if found is None:
            return None
        return replace(
            self,
            width=found.width,
            heads=found.heads,
            encoder_layers=min(found.layers, self.encoder_layers),
            decoder_layers=min(found.layers, self.decoder_layers),
            inner=found.inner,
        )

    @property
    def text(self) -> TextSizes:
        return TextSizes(vocab=self.vocab, source_vocab=self.source_vocab, context=self.context)


class TwoSides(Protocol):
    """What an encoder-decoder is built of, whatever its two sides are."""

    @property
    def vocab(self) -> int: ...
    @property
    def source_vocab(self) -> int | None: ...
    @property
    def width(self) -> int: ...
    @property
    def tied(self) -> bool: ...
    @property
    def scaled(self) -> bool: ...
    @property
    def output_bias(self) -> bool: ...
    @property
    def encoder(self) -> StackConfig | LoopConfig: ...
    @property
    def decoder(self) -> StackConfig | LoopConfig: ...


@dataclass(frozen=True, slots=True)
class DecoderState:
    """The target so far, and the source as every decoder layer sees it."""

    cache: KVCache
    memory: Memory

    @classmethod
    def joint(cls, states: Sequence[DecoderState], rows: Sequence[int], blanks: int) -> DecoderState:
        """Several states, each with so many rows, for one token more of each row; blank rows may follow."""
        cache = JointKVCache.of([state.cache for state in states], rows, blanks)
        return cls(cache, JointMemory.of([state.memory for state in states], rows, blanks))

    def members(self) -> list[DecoderState]:
        """The states of a joint one."""
        cache, memory = self.cache, self.memory
        assert isinstance(cache, JointKVCache)
        assert isinstance(memory, JointMemory)
        return list(map(DecoderState, cache.members, memory.members))


def last_cross_attention(decoder: nn.Module) -> SourceAttention | None:
    """Of the last block of a `Stack` or a `Loop`; None without blocks."""
    blocks = decoder.blocks
    assert isinstance(blocks, nn.ModuleList)
    return SourceAttention(blocks[-1].cross.tap_weights) if len(blocks) else None  # type: ignore[union-attr, arg-type]


class EncoderDecoder(Model):
    """Source and target prefix -> logits for each next target token."""

    def __init__(self, config: TwoSides) -> None:
        super().__init__()
        self.vocab = config.vocab

        def embedding(vocab: int) -> TokenEmbedding:
            scale = config.width**0.5 if config.scaled else 1.0
            return TokenEmbedding(TokenEmbeddingConfig(vocab=vocab, width=config.width, scale=scale))

        self.target_embedding = embedding(config.vocab)
        self.source_embedding = embedding(config.source_vocab) if config.source_vocab is not None else None
        self.encoder = config.encoder.build()
        self.decoder = config.decoder.build()
        self.head = Head(config.width, config.vocab, tied=config.tied, bias=config.output_bias)
        xavier_init(self)
        for table in (self.target_embedding, self.source_embedding):
            if table is not None:  # times √D on the way in, so that words and positions weigh alike
                nn.init.normal_(table.weight, std=config.width**-0.5)

    def encode(self, source: EncoderInput) -> Memory:
        """Read the source: keys and values for every decoder layer."""
        check_lengths(source.lengths, source.tokens, "source")
        embedding = self.source_embedding or self.target_embedding
        mask = None if source.lengths is None else Lengths(source.lengths)
        x_BSD = self.encoder(embedding(source.tokens), mask=mask, lengths_B=source.lengths)
        return self.decoder.project_memory(x_BSD, source.lengths)

    def forward(
        self,
        source_BS: Tensor,
        target_BT: Tensor,
        source_lengths_B: Tensor | None = None,
        target_lengths_B: Tensor | None = None,
    ) -> Tensor:
        """Source (B, S), target prefix (B, T) -> logits (B, T, V); both may be padded on the right."""
        return self.read(self.features(source_BS, target_BT, source_lengths_B, target_lengths_B))

    def read(self, hidden_BTD: Tensor) -> Tensor:
        """The decoder's output (B, T, D) -> logits (B, T, V)."""
        logits: Tensor = self.head(hidden_BTD, self.target_embedding.weight)
        return logits

    def features(
        self,
        source_BS: Tensor,
        target_BT: Tensor,
        source_lengths_B: Tensor | None = None,
        target_lengths_B: Tensor | None = None,
    ) -> Tensor:
        """Source (B, S), target prefix (B, T) -> (B, T, D), what the output layer reads."""
        check_lengths(target_lengths_B, target_BT, "target")
        memory = self.encode(EncoderInput(source_BS, source_lengths_B))
        x_BTD: Tensor = self.decoder(self.target_embedding(target_BT), mask=self.target_mask(0), memory=memory)
        return x_BTD

    def target_mask(self, offset: Offset) -> Mask:
        """What target tokens may attend to in the target, the first of them at position `offset`."""
        return Causal(offset=offset)

    def output(self) -> tuple[Tensor, Tensor | None]:
        """The output layer's matrix (V, D) and bias."""
        return self.head.matrix(self.target_embedding.weight), self.head.bias

    def source_attention(self) -> SourceAttention | None:
        """The last decoder layer's cross-attention, weights (B, H, T, S); None without a layer."""
        return last_cross_attention(self.decoder)

    @torch.no_grad()
    def start(self, source: EncoderInput | None = None, *, capacity: int = 64) -> DecoderState:
        """Encode the source; the target is empty."""
        if source is None:
            raise ConfigError("an encoder-decoder needs a source to start from")
        return DecoderState(self.decoder.empty_cache(capacity), self.encode(source))

    @torch.no_grad()
    def extend(
        self, tokens_BK: Tensor, state: DecoderState, counts_B: Tensor | None = None
    ) -> tuple[Tensor, DecoderState]:
        """(B, K) -> logits (B, K, V) and the state after them."""
        check_lengths(counts_B, tokens_BK, "target")
        cache = state.cache.ready(tokens_BK.shape[1], counts_B)
        x = self.decoder(
            self.target_embedding(tokens_BK), mask=self.target_mask(cache.length), cache=cache, memory=state.memory
        )
        state = replace(state, cache=cache.advanced(tokens_BK.shape[1], counts_B))
        return self.head(x, self.target_embedding.weight), state

    def select(self, state: DecoderState, rows_B: Tensor) -> DecoderState:
        """These rows, in this order."""
        return DecoderState(state.cache.select(rows_B), state.memory.select(rows_B))

    def joint(self, states: Sequence[DecoderState], rows: Sequence[int], blanks: int) -> DecoderState | None:
        """Several states, for one more token of each of their rows; None for a decoder that loops."""
        return DecoderState.joint(states, rows, blanks) if isinstance(self.decoder, Stack) else None

    def members(self, state: DecoderState) -> list[DecoderState]:
        """The states of a joint one."""
        return state.members()

    title = "transformer encoder-decoder"
    reads = frozenset({"source", "tokens", "source_lengths", "lengths"})

    def run(self, inputs: ModelInputs) -> ModelOutputs:
        source, target = inputs.need("source"), inputs.need("tokens")
        return ModelOutputs(tokens=self(source, target, inputs.source_lengths, inputs.lengths))
