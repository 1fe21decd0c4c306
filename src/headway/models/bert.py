"""BERT (Devlin et al. 2019, section 3): an encoder of one or two sentences, a pooler and two pretraining heads."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, Protocol

import torch
from torch import Tensor, nn

from headway.errors import ConfigError
from headway.models.inputs import Model, ModelInputs, ModelOutputs, TextSizes
from headway.models.smaller import StackSizes
from headway.nn.attention import AttentionConfig
from headway.nn.block import BlockConfig
from headway.nn.embedding import Head, TokenEmbedding, TokenEmbeddingConfig, check_lengths
from headway.nn.feedforward import Activation, FeedForwardConfig, activation_function
from headway.nn.linear import normal_init
from headway.nn.longformer_attention import Windows
from headway.nn.norms import LayerNorm, Norm
from headway.nn.positions import EncoderPosition, Learned
from headway.nn.stack import StackConfig
from headway.nn.universal_stack import LoopConfig
from headway.ops import Lengths, Mask


@dataclass(frozen=True, slots=True, kw_only=True)
class BertConfig:
    """Sizes and parts of a BERT; the defaults are bert-base's."""

    vocab: int  # tokens in the vocabulary
    context: int = 512  # most tokens of an input: there are this many positions
    width: int = 768  # features of a token's vector, D
    layers: int = 12  # blocks in the stack
    heads: int = 12  # attention heads; they divide the width
    inner: int = 3072  # features inside the feed-forward network, F
    segments: int = 2  # kinds of segments with an embedding each; 0: none
    position: EncoderPosition | None = Learned()  # how positions are encoded; none: no positions
    windows: Windows | None = None  # how far each layer sees; none: to both ends
    norm: Norm = LayerNorm(eps=1e-12)  # the normalisation, with its settings
    place: Literal["post", "pre"] = "post"  # norms after each part, or before it (ModernBERT)
    activation: Activation = "gelu"  # of the feed-forward network
    bias: bool = True  # in the linear layers
    dropout: float = 0.1  # on embeddings, weights and what each part adds
    pooler: bool = True  # a dense layer with tanh on the first token, for heads that read a whole text
    init_std: float = 0.02  # standard deviation of the initial weights
    kernel: str = "auto"  # attention kernel: auto, or a name that ops.attend knows

    def __post_init__(self) -> None:
        if self.windows is not None:
            self.windows.check(self.layers, self.heads)

    @property
    def stack(self) -> StackConfig:
        """The stack these sizes describe."""
        attention = AttentionConfig(
            width=self.width, heads=self.heads, bias=self.bias, dropout=self.dropout, kernel=self.kernel
        )
        feedforward = FeedForwardConfig(inner=self.inner, activation=self.activation, bias=self.bias)
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
            input_norm=True,
            first_norm=self.place == "post",  # before it the input norm is enough
            dropout=self.dropout,
        )

    def build(self) -> Bert:
        return Bert(self)

    def smaller(self) -> BertConfig | None:
        """The next smaller version."""
        found = StackSizes(self.width, self.heads, self.layers, self.inner).smaller()
        if found is None:
            return None
        return replace(self, width=found.width, heads=found.heads, layers=found.layers, inner=found.inner)

    @property
    def text(self) -> TextSizes:
        return TextSizes(vocab=self.vocab, context=self.context, segments=max(self.segments, 1))


class OneSide(Protocol):
    """The settings that `Bert` needs, whether its layers are a `Stack` or a `Loop`."""

    @property
    def vocab(self) -> int: ...
    @property
    def width(self) -> int: ...
    @property
    def segments(self) -> int: ...
    @property
    def windows(self) -> Windows | None: ...
    @property
    def norm(self) -> Norm: ...
    @property
    def activation(self) -> Activation: ...
    @property
    def pooler(self) -> bool: ...
    @property
    def init_std(self) -> float: ...
    @property
    def stack(self) -> StackConfig | LoopConfig: ...


class Bert(Model):
    """Tokens -> one vector for each token; `pool` returns one for each sequence."""

    def __init__(self, config: OneSide) -> None:
        super().__init__()
        self.vocab = config.vocab
        self.embedding = TokenEmbedding(TokenEmbeddingConfig(vocab=config.vocab, width=config.width))
        self.segment_embedding: TokenEmbedding | None = None
        if config.segments:
            self.segment_embedding = TokenEmbedding(TokenEmbeddingConfig(vocab=config.segments, width=config.width))
        else:
            self.reads = self.reads - {"segments"}
        self.stack = config.stack.build()
        self.windows: tuple[Mask | None, ...] | None = None
        if config.windows is not None:
            self.windows = config.windows.masks(len(self.stack.blocks), config.stack.block.attention.heads)
        self.pooler = nn.Linear(config.width, config.width) if config.pooler else None
        normal_init(self, config.init_std)

    def forward(
        self, tokens_BT: Tensor, lengths_B: Tensor | None = None, *, segments_BT: Tensor | None = None
    ) -> Tensor:
        """(B, T) -> (B, T, D); segments (B, T) are the sentence each token belongs to, the first one if None."""
        check_lengths(lengths_B, tokens_BT)
        x_BTD = self.embedding(tokens_BT)
        if self.segment_embedding is not None:
            segments = self.segment_embedding.weight[0] if segments_BT is None else self.segment_embedding(segments_BT)
            x_BTD = x_BTD + segments
        elif segments_BT is not None:
            raise ConfigError("this model has no embedding of segments (segments=0)")
        hidden: Tensor = self.stack(x_BTD, mask=self._masks(lengths_B), lengths_B=lengths_B)
        return hidden

    def _masks(self, lengths_B: Tensor | None) -> Mask | tuple[Mask | None, ...] | None:
        """One for all layers, or one for each; layers with equal windows share one, and what kernels cache in it."""
        real = None if lengths_B is None else Lengths(lengths_B)
        if self.windows is None:
            return real
        made: dict[Mask | None, Mask | None] = {None: real}
        for window in self.windows:
            if window is not None and window not in made:
                made[window] = window.at(0) if real is None else window.at(0) & real
        return tuple(made[window] for window in self.windows)

    def pool(self, hidden_BTD: Tensor) -> Tensor:
        """(B, T, D) -> (B, D): the first token's vector through a linear layer and tanh."""
        if self.pooler is None:
            raise ConfigError("this model has no pooler (pooler=False)")
        pooled: Tensor = self.pooler(hidden_BTD[:, 0]).tanh()
        return pooled

    title = "BERT encoder"
    reads = frozenset({"tokens", "lengths", "segments"})

    def run(self, inputs: ModelInputs) -> ModelOutputs:
        vectors: Tensor = self(inputs.need("tokens"), inputs.lengths, segments_BT=inputs.segments)
        return ModelOutputs(vectors=vectors, pooled=None if self.pooler is None else self.pool(vectors))


class PretrainingLogits(NamedTuple):
    """Logits of each token (B, T, V), and of whether sentence B follows A (B, 2); None without that head."""

    tokens: Tensor
    follows: Tensor | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BertPretrainingConfig:
    """A BERT with its pretraining heads: both, or only the masked-token head."""

    bert: BertConfig  # the encoder
    follows: bool = True  # next-sentence prediction, which reads the pooler
    tied: bool = True  # the masked-token head's matrix is the embedding

    def __post_init__(self) -> None:
        if self.follows and not self.bert.pooler:
            raise ConfigError("next-sentence prediction reads the pooler: bert.pooler=False needs follows=False")

    def build(self) -> BertPretraining:
        return BertPretraining(self)

    def smaller(self) -> BertPretrainingConfig | None:
        """With the next smaller encoder."""
        bert = self.bert.smaller()
        return None if bert is None else replace(self, bert=bert)

    def with_backbone(self, bert: BertConfig) -> BertPretrainingConfig:
        """These heads on another encoder; next-sentence prediction needs a pooler, and segments to tell two texts."""
        follows = self.follows and bert.segments > 1
        return replace(self, bert=replace(bert, pooler=True) if follows else bert, follows=follows)

    @property
    def text(self) -> TextSizes:
        return self.bert.text.under("bert")

    def check_rows(self, rows: str) -> None:
        """Raise ConfigError for rows of a masked task that the heads cannot be trained on."""
        check_rows(rows, follows=self.follows)
        if rows == "pairs" and self.bert.segments < 2:
            raise ConfigError(f"task.rows={rows} with this model, allowed: running, or a model.bert.segments of 2")


def check_rows(rows: str, *, follows: bool) -> None:
    """Raise ConfigError for rows without a second sentence where a model predicts whether it follows."""
    if rows != "pairs" and follows:
        raise ConfigError(f"task.rows={rows} with this model, allowed: pairs, or model.follows=false")


class WithHeads(Protocol):
    """The settings that `BertPretraining` needs."""

    @property
    def bert(self) -> OneSide: ...
    @property
    def follows(self) -> bool: ...
    @property
    def tied(self) -> bool: ...


class BertPretraining(Model):
    """BERT with the masked-token head (with a bias) and, optionally, the next-sentence head."""

    def __init__(self, config: WithHeads) -> None:
        super().__init__()
        width = config.bert.width
        self.vocab = config.bert.vocab
        self.bert = Bert(config.bert)
        self.reads = self.bert.reads
        self.transform = nn.Linear(width, width, bias=config.bert.stack.block.attention.bias)
        self.transform_norm = config.bert.norm.build(width)
        self.transform_function = activation_function(config.bert.activation)
        self.token_head = Head(width, config.bert.vocab, tied=config.tied, bias=True)
        self.follows = nn.Linear(width, 2) if config.follows else None
        for head in (self.transform, self.follows):
            if head is not None:
                normal_init(head, config.bert.init_std)

    def forward(
        self, tokens_BT: Tensor, lengths_B: Tensor | None = None, *, segments_BT: Tensor | None = None
    ) -> PretrainingLogits:
        """(B, T) -> logits of both heads."""
        x_BTD, follows = self.features(tokens_BT, lengths_B, segments_BT=segments_BT)
        return PretrainingLogits(self.token_head(x_BTD, self.bert.embedding.weight), follows)

    def features(
        self, tokens_BT: Tensor, lengths_B: Tensor | None = None, *, segments_BT: Tensor | None = None
    ) -> tuple[Tensor, Tensor | None]:
        """(B, T) -> the input of the token head's matrix (B, T, D), and the logits of the other head (B, 2), if any."""
        hidden_BTD = self.bert(tokens_BT, lengths_B, segments_BT=segments_BT)
        real_BT = None
        if lengths_B is not None:
            real_BT = torch.arange(tokens_BT.shape[1], device=tokens_BT.device) < lengths_B.unsqueeze(-1)
        follows = None if self.follows is None else self.follows(self.bert.pool(hidden_BTD))
        return self._transformed(hidden_BTD, real_BT), follows

    @property
    def encoder(self) -> Bert:
        """The model without its heads."""
        return self.bert

    def read(self, hidden_BTD: Tensor) -> Tensor:
        """The stack's output (B, T, D) -> logits of the token head (B, T, V)."""
        logits: Tensor = self.token_head(self._transformed(hidden_BTD), self.bert.embedding.weight)
        return logits

    def _transformed(self, hidden_BTD: Tensor, real_BT: Tensor | None = None) -> Tensor:
        x_BTD: Tensor = self.transform_norm(self.transform_function(self.transform(hidden_BTD)), real_BT)
        return x_BTD

    def output(self) -> tuple[Tensor, Tensor | None]:
        """The token head's matrix (V, D) and bias."""
        return self.token_head.matrix(self.bert.embedding.weight), self.token_head.bias

    title = "BERT"
    reads = frozenset({"tokens", "lengths", "segments"})

    def run(self, inputs: ModelInputs) -> ModelOutputs:
        found: PretrainingLogits = self(inputs.need("tokens"), inputs.lengths, segments_BT=inputs.segments)
        return ModelOutputs(tokens=found.tokens, next_sentence=found.follows)
