"""Longformer (Beltagy et al. 2020): an encoder for long texts with sliding windows and a few global tokens."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from headway.errors import ConfigError, ShapeError
from headway.models.inputs import Model, ModelInputs, ModelOutputs, TextSizes
from headway.models.smaller import StackSizes
from headway.nn.block import BlockConfig
from headway.nn.embedding import Head, TokenEmbedding, TokenEmbeddingConfig, check_lengths
from headway.nn.feedforward import Activation, FeedForwardConfig, activation_function
from headway.nn.linear import normal_init
from headway.nn.longformer_attention import GlobalAttention, GlobalAttentionConfig, Windows
from headway.nn.norms import LayerNorm
from headway.nn.positions import Learned
from headway.nn.stack import Stack, StackConfig
from headway.ops import Global, Lengths, Mask
from headway.ops.mask_structure import global_keys_only, globals_of, marked_keys


@dataclass(frozen=True, slots=True, kw_only=True)
class LongformerConfig:
    """Sizes and parts of a Longformer; the defaults are longformer-base-4096's."""

    vocab: int  # tokens in the vocabulary
    windows: Windows = Windows(radius=256)  # how far each layer's sliding window reaches
    context: int = 4096  # most tokens of an input: there are this many positions
    width: int = 768  # features of a token's vector, D
    layers: int = 12  # blocks in the stack
    heads: int = 12  # attention heads; they divide the width
    inner: int = 3072  # features inside the feed-forward network, F
    segments: int = 1  # kinds of segments with an embedding each
    norm: LayerNorm = LayerNorm(eps=1e-5)  # the normalisation, with its settings
    activation: Activation = "gelu"  # of the feed-forward network
    dropout: float = 0.1  # on embeddings, weights and what each part adds
    pooler: bool = True  # a dense layer with tanh on the first token, for heads that read a whole text
    init_std: float = 0.02  # standard deviation of the initial weights
    kernel: str = "auto"  # attention kernel: auto, or a name that ops.attend knows

    def __post_init__(self) -> None:
        self.windows.check(self.layers, self.heads)
        if not self.windows.everywhere:
            raise ConfigError(f"windows.radius={self.windows.radius}: every layer of a Longformer has a window")

    @property
    def stack(self) -> StackConfig:
        """The stack these sizes describe."""
        return StackConfig(
            layers=self.layers,
            block=BlockConfig(
                attention=GlobalAttentionConfig(
                    width=self.width, heads=self.heads, dropout=self.dropout, kernel=self.kernel
                ),
                feedforward=FeedForwardConfig(inner=self.inner, activation=self.activation),
                norm=self.norm,
                place="post",
                dropout=self.dropout,
            ),
            context=self.context,
            position=Learned(),
            input_norm=True,
            dropout=self.dropout,
        )

    def build(self) -> Longformer:
        return Longformer(self)

    def smaller(self) -> LongformerConfig | None:
        """The next smaller version; None for the smallest, and for a model with its own windows in each layer."""
        found = StackSizes(self.width, self.heads, self.layers, self.inner).smaller()
        if found is None or not isinstance(self.windows.radius, int):
            return None
        return replace(self, width=found.width, heads=found.heads, layers=found.layers, inner=found.inner)

    @property
    def text(self) -> TextSizes:
        return TextSizes(vocab=self.vocab, context=self.context, segments=self.segments)


class Longformer(Model):
    """Tokens -> one vector for each token; `pool` returns one for each sequence."""

    def __init__(self, config: LongformerConfig) -> None:
        super().__init__()
        self.vocab = config.vocab
        self.windows = [mask for mask in config.windows.masks(config.layers, config.heads) if mask is not None]
        self.embedding = TokenEmbedding(TokenEmbeddingConfig(vocab=config.vocab, width=config.width))
        self.segment_embedding = TokenEmbedding(TokenEmbeddingConfig(vocab=config.segments, width=config.width))
        self.stack = Stack(config.stack)
        self.pooler = nn.Linear(config.width, config.width) if config.pooler else None
        normal_init(self, config.init_std)
        for part in self.modules():
            if isinstance(part, GlobalAttention):
                part.copy_local()

    def forward(
        self,
        tokens_BT: Tensor,
        lengths_B: Tensor | None = None,
        *,
        segments_BT: Tensor | None = None,
        global_BT: Tensor | None = None,
    ) -> Tensor:
        """(B, T) -> (B, T, D); `global_BT` marks the global tokens; None: no global token."""
        check_lengths(lengths_B, tokens_BT)
        segments = self.segment_embedding.weight[0] if segments_BT is None else self.segment_embedding(segments_BT)
        x_BTD = self.embedding(tokens_BT) + segments
        hidden: Tensor = self.stack(x_BTD, mask=self._masks(tokens_BT, lengths_B, global_BT), lengths_B=lengths_B)
        return hidden

    def _masks(self, tokens_BT: Tensor, lengths_B: Tensor | None, global_BT: Tensor | None) -> tuple[Mask, ...]:
        """One for each layer; layers with equal windows share one, and all share the index of the global tokens."""
        real = None if lengths_B is None else Lengths(lengths_B)
        if real is not None:
            real.once("none empty", lambda: True)  # `check_lengths` has ensured it
        everyone: Global | None = None
        if global_BT is not None:
            if global_BT.shape != tokens_BT.shape or global_BT.dtype != torch.bool:
                given = f"{tuple(global_BT.shape)} of {global_BT.dtype}"
                raise ShapeError(f"global_BT is {given}, expected {tuple(tokens_BT.shape)} of torch.bool")
            if real is not None:  # padding is never global
                global_BT = global_BT & real.real(tokens_BT.shape[1])
            everyone = Global(global_BT)
            if not torch.compiler.is_compiling():  # synchronises while little is queued yet
                marked_keys(*globals_of(global_keys_only(everyone)))
        made: dict[int, Mask] = {}
        for window in self.windows:
            if id(window) not in made:
                mask: Mask = window.at(0) if everyone is None else window | everyone
                made[id(window)] = mask if real is None else mask & real
        return tuple(made[id(window)] for window in self.windows)

    def pool(self, hidden_BTD: Tensor) -> Tensor:
        """(B, T, D) -> (B, D): the first token's vector through a linear layer and tanh."""
        if self.pooler is None:
            raise ConfigError("this model has no pooler (pooler=False)")
        pooled: Tensor = self.pooler(hidden_BTD[:, 0]).tanh()
        return pooled

    title = "Longformer encoder"
    reads = frozenset({"tokens", "lengths", "segments", "global_tokens"})

    def run(self, inputs: ModelInputs) -> ModelOutputs:
        vectors: Tensor = self(
            inputs.need("tokens"), inputs.lengths, segments_BT=inputs.segments, global_BT=inputs.global_tokens
        )
        return ModelOutputs(vectors=vectors, pooled=None if self.pooler is None else self.pool(vectors))


@dataclass(frozen=True, slots=True, kw_only=True)
class LongformerMaskedConfig:
    """A Longformer with a masked-token head."""

    longformer: LongformerConfig  # the encoder

    def build(self) -> LongformerMasked:
        return LongformerMasked(self)

    def smaller(self) -> LongformerMaskedConfig | None:
        """With the next smaller encoder."""
        longformer = self.longformer.smaller()
        return None if longformer is None else replace(self, longformer=longformer)

    @property
    def text(self) -> TextSizes:
        return self.longformer.text.under("longformer")

    def check_rows(self, rows: str) -> None:
        """Raise ConfigError for rows of a masked task that the model cannot be trained on."""
        if rows != "running" and self.longformer.segments < 2:
            raise ConfigError(
                f"task.rows={rows} with this model, allowed: running, or a model.longformer.segments of 2"
            )


class LongformerMasked(Model):
    """Tokens -> logits for each token (RoBERTa's head: linear, activation, norm, tied matrix with a bias)."""

    def __init__(self, config: LongformerMaskedConfig) -> None:
        super().__init__()
        body = config.longformer
        self.vocab = body.vocab
        self.longformer = Longformer(body)
        self.transform = nn.Linear(body.width, body.width)
        self.transform_norm = body.norm.build(body.width)
        self.transform_function = activation_function(body.activation)
        self.token_head = Head(body.width, body.vocab, tied=True, bias=True)
        normal_init(self.transform, body.init_std)

    def forward(
        self,
        tokens_BT: Tensor,
        lengths_B: Tensor | None = None,
        *,
        segments_BT: Tensor | None = None,
        global_BT: Tensor | None = None,
    ) -> Tensor:
        """(B, T) -> logits (B, T, V)."""
        x_BTD = self.features(tokens_BT, lengths_B, segments_BT=segments_BT, global_BT=global_BT)
        logits: Tensor = self.token_head(x_BTD, self.longformer.embedding.weight)
        return logits

    @property
    def encoder(self) -> Longformer:
        """The model without its head."""
        return self.longformer

    def features(
        self,
        tokens_BT: Tensor,
        lengths_B: Tensor | None = None,
        *,
        segments_BT: Tensor | None = None,
        global_BT: Tensor | None = None,
    ) -> Tensor:
        """(B, T) -> what the token head's matrix reads (B, T, D)."""
        hidden_BTD = self.longformer(tokens_BT, lengths_B, segments_BT=segments_BT, global_BT=global_BT)
        return self._transformed(hidden_BTD)

    def read(self, hidden_BTD: Tensor) -> Tensor:
        """The stack's output (B, T, D) -> logits (B, T, V)."""
        logits: Tensor = self.token_head(self._transformed(hidden_BTD), self.longformer.embedding.weight)
        return logits

    def _transformed(self, hidden_BTD: Tensor) -> Tensor:
        x_BTD: Tensor = self.transform_norm(self.transform_function(self.transform(hidden_BTD)))
        return x_BTD

    def output(self) -> tuple[Tensor, Tensor | None]:
        """The token head's matrix (V, D) and bias."""
        return self.token_head.matrix(self.longformer.embedding.weight), self.token_head.bias

    title = "Longformer"
    reads = frozenset({"tokens", "lengths", "segments", "global_tokens"})

    def run(self, inputs: ModelInputs) -> ModelOutputs:
        tokens: Tensor = self(
            inputs.need("tokens"), inputs.lengths, segments_BT=inputs.segments, global_BT=inputs.global_tokens
        )
        return ModelOutputs(tokens=tokens)
