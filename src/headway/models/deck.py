"""A minimal transformer from lecture slides: one head, a d→d LeakyReLU network, post-norm, learned positions.

The slide's class is completed only where it cannot run as printed: the position table gets a length, tokens get an
embedding, and a linear output layer computes logits; LayerNorm is that of Ba et al. 2016. There is no causal
mask on the slide, and none here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor, nn

from headway.errors import ConfigError
from headway.models.inputs import Model, ModelInputs, ModelOutputs, TextSizes
from headway.nn.attention import AttentionConfig
from headway.nn.block import BlockConfig
from headway.nn.embedding import TokenEmbedding, TokenEmbeddingConfig, check_lengths
from headway.nn.feedforward import FeedForwardConfig
from headway.nn.positions import EncoderPosition, Learned
from headway.nn.stack import Stack, StackConfig
from headway.ops import Lengths


@dataclass(frozen=True, slots=True, kw_only=True)
class DeckConfig:
    """Sizes of the model, which the slide leaves open."""

    vocab: int  # tokens in the vocabulary
    context: int = 64  # most tokens of an input
    width: int = 64  # features of a token's vector, D
    layers: int = 2  # blocks in the stack
    heads: int = 1  # attention heads; they divide the width
    position: EncoderPosition | None = Learned()  # how positions are encoded; none: no positions

    @property
    def stack(self) -> StackConfig:
        """The stack these sizes describe."""
        return StackConfig(
            layers=self.layers,
            block=BlockConfig(
                attention=AttentionConfig(width=self.width, heads=self.heads),
                feedforward=FeedForwardConfig(inner=self.width, activation="leaky_relu"),
                place="post",
            ),
            context=self.context,
            position=self.position,
        )

    def build(self) -> Deck:
        return Deck(self)

    def check_rows(self, rows: str) -> None:
        """Raise ConfigError for rows of a masked task that the model cannot be trained on: it has no segments."""
        if rows != "running":
            raise ConfigError(f"task.rows={rows} with this model, allowed: running")

    @property
    def text(self) -> TextSizes:
        return TextSizes(vocab=self.vocab, context=self.context)


class Deck(Model):
    """Tokens -> logits at every position; attention is not causal."""

    def __init__(self, config: DeckConfig) -> None:
        super().__init__()
        self.vocab = config.vocab
        self.embedding = TokenEmbedding(TokenEmbeddingConfig(vocab=config.vocab, width=config.width))
        self.stack = Stack(config.stack)
        self.head = nn.Linear(config.width, config.vocab)

    def forward(
        self, tokens_BT: Tensor, lengths_B: Tensor | None = None, *, segments_BT: Tensor | None = None
    ) -> Tensor:
        """(B, T) -> logits (B, T, V)."""
        return self.read(self.features(tokens_BT, lengths_B, segments_BT=segments_BT))

    def features(
        self, tokens_BT: Tensor, lengths_B: Tensor | None = None, *, segments_BT: Tensor | None = None
    ) -> Tensor:
        """(B, T) -> what the output layer reads (B, T, D). Raises ConfigError for segments, which it does not have."""
        if segments_BT is not None:
            raise ConfigError("the model of the deck has no segments: pass one text, without segments_BT")
        check_lengths(lengths_B, tokens_BT)
        mask = None if lengths_B is None else Lengths(lengths_B)
        hidden_BTD: Tensor = self.stack(self.embedding(tokens_BT), mask=mask, lengths_B=lengths_B)
        return hidden_BTD

    @property
    def encoder(self) -> Callable[[Tensor, Tensor | None], Tensor]:
        """The model without its output layer, for vectors of texts."""
        return self.features

    def output(self) -> tuple[Tensor, Tensor | None]:
        """The output layer's matrix (V, D) and bias."""
        return self.head.weight, self.head.bias

    def read(self, hidden_BTD: Tensor) -> Tensor:
        """The stack's output (B, T, D) -> logits (B, T, V)."""
        logits: Tensor = self.head(hidden_BTD)
        return logits

    title = "one-head transformer of the slides"
    reads = frozenset({"tokens", "lengths"})

    def run(self, inputs: ModelInputs) -> ModelOutputs:
        return ModelOutputs(tokens=self(inputs.need("tokens"), inputs.lengths))
