"""The model `echo-net`: a small encoder, the mean of its vectors, a linear layer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from headway.models.inputs import Model, ModelInputs, ModelOutputs, TextSizes
from headway.nn.attention import AttentionConfig
from headway.nn.block import BlockConfig
from headway.nn.embedding import TokenEmbedding, TokenEmbeddingConfig
from headway.nn.feedforward import FeedForwardConfig
from headway.nn.positions import Learned
from headway.nn.stack import StackConfig
from headway.ops import Lengths


@dataclass(frozen=True, slots=True, kw_only=True)
class EchoNetConfig:
    """Sizes of the encoder."""

    name: ClassVar[str] = "echo-net"

    vocab: int = 6  # tokens in the vocabulary; the data sets it
    context: int = 4  # most tokens of a string
    width: int = 16  # features of a token's vector
    layers: int = 2  # blocks
    heads: int = 2  # attention heads
    classes: int = 2  # how many classes; the data sets it

    def build(self) -> EchoNet:
        """The model of these settings."""
        return EchoNet(self)

    @property
    def text(self) -> TextSizes:
        """The sizes of the strings it reads."""
        return TextSizes(vocab=self.vocab, context=self.context)


class EchoNet(Model):
    """Tokens -> logits of the classes of a string."""

    reads = frozenset({"tokens", "lengths"})

    def __init__(self, config: EchoNetConfig) -> None:
        super().__init__()
        self.embedding = TokenEmbedding(TokenEmbeddingConfig(vocab=config.vocab, width=config.width))
        attention = AttentionConfig(width=config.width, heads=config.heads)
        block = BlockConfig(attention=attention, feedforward=FeedForwardConfig(inner=2 * config.width), place="pre")
        stack = StackConfig(layers=config.layers, block=block, context=config.context, position=Learned())
        self.stack = stack.build()
        self.head = nn.Linear(config.width, config.classes)

    def forward(self, tokens_BT: Tensor, lengths_B: Tensor | None = None) -> Tensor:
        """(B, T), lengths (B,) -> logits (B, classes)."""
        if lengths_B is None:
            lengths_B = torch.full((len(tokens_BT),), tokens_BT.shape[1], device=tokens_BT.device)
        hidden_BTD = self.stack(self.embedding(tokens_BT), mask=Lengths(lengths_B), lengths_B=lengths_B)
        real_BT = torch.arange(tokens_BT.shape[1], device=tokens_BT.device) < lengths_B[:, None]
        mean_BD = (hidden_BTD * real_BT[..., None]).sum(1) / lengths_B[:, None]
        logits: Tensor = self.head(mean_BD)
        return logits

    def run(self, inputs: ModelInputs) -> ModelOutputs:
        """Class logits of `inputs.tokens`."""
        return ModelOutputs(classes=self(inputs.need("tokens"), inputs.lengths))
