"""The decoder-only transformer: GPT-2, character models and, with other parts, LLaMA's shape."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor, nn

from headway.errors import ConfigError
from headway.models.inputs import Model, ModelInputs, ModelOutputs, TextSizes
from headway.models.smaller import StackSizes, shared_heads
from headway.models.stepper import EncoderInput
from headway.nn.attention import AttentionConfig
from headway.nn.block import Block, BlockConfig
from headway.nn.cache import KVCache
from headway.nn.embedding import Head, TokenEmbedding, TokenEmbeddingConfig, check_lengths
from headway.nn.feedforward import Activation, FeedForwardConfig
from headway.nn.linear import normal_init
from headway.nn.longformer_attention import Windows
from headway.nn.norms import FeatureNorm, LayerNorm
from headway.nn.positions import CausalPosition, Learned
from headway.nn.row_cache import RowsKVCache
from headway.nn.stack import Stack, StackConfig
from headway.ops import Causal, Mask, Offset, Packed


@dataclass(frozen=True, slots=True, kw_only=True)
class GptConfig:
    """Sizes and parts of a decoder-only transformer; the defaults are GPT-2's."""

    vocab: int  # tokens in the vocabulary
    context: int  # most tokens of an input: there are this many positions
    width: int  # features of a token's vector, D
    layers: int  # blocks in the stack
    heads: int  # attention heads; they divide the width
    kv_heads: int | None = None  # key and value heads, shared by groups of query heads (GQA); none: as many as heads
    head_dim: int | None = None  # features of a head; none: width / heads
    inner: int | None = None  # none: 4·width
    position: CausalPosition | None = Learned()  # how positions are encoded; none: no positions
    windows: Windows | None = None  # how far back each layer sees; none: to the beginning
    norm: FeatureNorm = LayerNorm()  # the normalisation, with its settings
    place: Literal["pre", "sandwich"] = "pre"  # norms before each part, or before and after it (Gemma 2)
    qk_norm: bool = False  # normalise each head's queries and keys as well (Qwen3)
    scale: float | None = None  # of attention scores; none: 1/√(features of a head)
    activation: Activation = "gelu_tanh"  # of the feed-forward network
    bias: bool = True  # in the linear layers
    qkv_bias: bool | None = None  # in the projection to queries, keys and values; none: as bias
    out_bias: bool | None = None  # in the attention's output; none: as bias
    tied: bool = True  # the output matrix is the embedding
    scaled: bool = False  # multiply embeddings by √D, as beside the 2017 paper's sinusoids
    dropout: float = 0.0  # share of features put to 0 in training, at least 0 and below 1
    init_std: float = 0.02  # standard deviation of the initial weights
    kernel: str = "auto"  # attention kernel: auto, or a name that ops.attend knows

    def __post_init__(self) -> None:
        if self.windows is not None:
            self.windows.check(self.layers, self.heads)

    @property
    def stack(self) -> StackConfig:
        """The stack these sizes describe."""
        attention = AttentionConfig(
            width=self.width,
            heads=self.heads,
            kv_heads=self.kv_heads,
            head_dim=self.head_dim,
            qk_norm=self.norm if self.qk_norm else None,
            bias=self.bias if self.qkv_bias is None else self.qkv_bias,
            out_bias=self.bias if self.out_bias is None else self.out_bias,
            scale=self.scale,
            dropout=self.dropout,
            kernel=self.kernel,
        )
        inner = 4 * self.width if self.inner is None else self.inner
        feedforward = FeedForwardConfig(inner=inner, activation=self.activation, bias=self.bias)
        return StackConfig(
            layers=self.layers,
            block=BlockConfig(
                attention=attention,
                feedforward=feedforward,
                norm=self.norm,
                place=self.place,
                dropout=self.dropout,
            ),
            context=self.context,
            position=self.position,
            causal=True,
            dropout=self.dropout,
        )

    def build(self) -> Gpt:
        return Gpt(self)

    def smaller(self) -> GptConfig | None:
        """The next smaller version; None for the smallest, and for a model with windows for each layer."""
        inner = 4 * self.width if self.inner is None else self.inner
        found = StackSizes(self.width, self.heads, self.layers, inner).smaller()
        if found is None or self.windows is not None:
            return None
        return replace(
            self,
            width=found.width,
            heads=found.heads,
            kv_heads=shared_heads(self.kv_heads, found.heads),
            layers=found.layers,
            inner=None if self.inner is None else found.inner,
        )

    @property
    def text(self) -> TextSizes:
        return TextSizes(vocab=self.vocab, context=self.context)


class Gpt(Model):
    """Tokens -> logits for each next token; a token attends to itself and earlier ones."""

    def __init__(self, config: GptConfig) -> None:
        super().__init__()
        self.vocab = config.vocab
        masks: list[Mask] = [Causal()]
        if config.windows is not None:
            found = config.windows.masks(config.layers, config.heads, causal=True)
            masks = [mask for mask in found if mask is not None]
        # Layers with equal masks share one, and what kernels cache in it.
        self.masks = list(dict.fromkeys(masks))
        self.mask_of_layer = [self.masks.index(mask) for mask in masks]
        scale = config.width**0.5 if config.scaled else 1.0
        self.embedding = TokenEmbedding(TokenEmbeddingConfig(vocab=config.vocab, width=config.width, scale=scale))
        self.stack = Stack(config.stack)
        attention = config.stack.block.attention
        self.key_shape = (attention.groups, attention.head_width)  # of a token's keys in a layer
        self.head = Head(config.width, config.vocab, tied=config.tied, bias=False)
        normal_init(self, config.init_std)
        # GPT-2: the last layer of each residual branch is initialised by 1/√(2·layers).
        for block in self.stack.blocks:
            assert isinstance(block, Block)
            for last in (block.attention.out, block.feedforward.down if block.feedforward else None):
                if last is not None:
                    nn.init.normal_(last.weight, std=config.init_std / (2 * config.layers) ** 0.5)

    def forward(
        self, tokens_BT: Tensor, lengths_B: Tensor | None = None, *, segments_BT: Tensor | None = None
    ) -> Tensor:
        """(B, T) -> logits (B, T, V)."""
        return self.read(self.features(tokens_BT, lengths_B, segments_BT=segments_BT))

    def read(self, hidden_BTD: Tensor) -> Tensor:
        """The stack's output (B, T, D) -> logits (B, T, V)."""
        logits: Tensor = self.head(hidden_BTD, self.embedding.weight)
        return logits

    def features(
        self, tokens_BT: Tensor, lengths_B: Tensor | None = None, *, segments_BT: Tensor | None = None
    ) -> Tensor:
        """(B, T) -> (B, T, D). Rows may be padded on the right, or hold several documents marked by segment.

        Positions count from the start of the row: what a document sees of others is nothing, but a position that is
        joined to the input is the row's, not the document's. Rotary, ALiBi and relative ones do not mind.
        """
        check_lengths(lengths_B, tokens_BT)
        x_BTD: Tensor = self.stack(self.embedding(tokens_BT), mask=self._masks(0, segments_BT))
        return x_BTD

    def output(self) -> tuple[Tensor, Tensor | None]:
        """The output layer's matrix (V, D) and bias."""
        return self.head.matrix(self.embedding.weight), self.head.bias

    def start(self, source: EncoderInput | None = None, *, capacity: int = 64) -> KVCache:
        """An empty cache; a language model reads no source."""
        if source is not None:
            raise ConfigError("a language model takes no source: give the prompt to `extend`")
        return self.stack.empty_cache(capacity)

    def start_fixed(self, rows: int, *, capacity: int) -> KVCache:
        """An empty cache of fixed shapes, for rows that have all read as many tokens."""
        groups, width = self.key_shape
        return self.start(capacity=capacity).static(rows, groups, width, self.embedding.weight)

    @torch.no_grad()
    def extend(self, tokens_BK: Tensor, state: KVCache, counts_B: Tensor | None = None) -> tuple[Tensor, KVCache]:
        """(B, K) -> logits (B, K, V) and the cache after them."""
        x_BKD, state = self.extend_hidden(tokens_BK, state, counts_B)
        return self.read(x_BKD), state

    @torch.no_grad()
    def extend_hidden(
        self, tokens_BK: Tensor, state: KVCache, counts_B: Tensor | None = None
    ) -> tuple[Tensor, KVCache]:
        """The same before the output layer: (B, K, D)."""
        check_lengths(counts_B, tokens_BK)
        state = state.ready(tokens_BK.shape[1], counts_B)
        x_BKD = self.stack(self.embedding(tokens_BK), mask=self._masks(state.length), cache=state)
        return x_BKD, state.advanced(tokens_BK.shape[1], counts_B)

    def _masks(self, offset: Offset, segments_BT: Tensor | None = None) -> Mask | tuple[Mask, ...]:
        """For queries from position `offset` on: one mask for all layers, or one for each if windows differ."""
        same = None if segments_BT is None else Packed(segments_BT)
        fresh = [mask.at(offset) if same is None else mask.at(offset) & same for mask in self.masks]
        return fresh[0] if len(fresh) == 1 else tuple(fresh[k] for k in self.mask_of_layer)

    def select(self, state: KVCache, rows_B: Tensor) -> KVCache:
        """These rows, in this order."""
        return state.select(rows_B)

    def join(self, states: Sequence[KVCache]) -> KVCache:
        """The rows of several states, in their order."""
        return RowsKVCache.join(states)

    def fork(self, state: KVCache, rows_B: Tensor) -> KVCache:
        """A copy of these rows."""
        return RowsKVCache.copy_of(state, rows_B)

    def prefix(self, state: KVCache, length: int, *, capacity: int) -> KVCache:
        """A copy of the state after the first `length` tokens."""
        return state.prefix(length, capacity)

    title = "GPT, a transformer decoder"
    reads = frozenset({"tokens", "lengths", "documents"})

    def run(self, inputs: ModelInputs) -> ModelOutputs:
        return ModelOutputs(tokens=self(inputs.need("tokens"), inputs.lengths, segments_BT=inputs.documents))
