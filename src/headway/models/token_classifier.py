"""A classifier of tokens: an encoder, dropout and a linear layer on each token's vector.

With a class for each kind of token it tags a text (Devlin et al. 2019, section 5.3); with two outputs, the scores of a
token as the start and as the end of an answer, it reads answers out of a text (section 4.2).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from headway.config import positive
from headway.errors import ConfigError
from headway.models.bert import BertConfig
from headway.models.inputs import Model, ModelInputs, ModelOutputs, TextSizes
from headway.models.longformer import LongformerConfig
from headway.models.recurrent_encoder import RecurrentEncoderConfig
from headway.nn.linear import normal_init


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenClassifierConfig:
    """An encoder, and how many outputs a token has."""

    encoder: BertConfig | LongformerConfig | RecurrentEncoderConfig  # the encoder, with its sizes; a pooler is not read
    classes: int  # outputs of each token: the tags, which the data sets, or 2, the start and the end of an answer
    dropout: float | None = None  # on the vectors that the linear layer reads; none: the encoder's
    global_tokens: int = 0  # of a Longformer, from the first on: they see, and are seen by, all

    def __post_init__(self) -> None:
        positive("classes", self.classes)
        positive("global_tokens", self.global_tokens, least=0)
        if getattr(self.encoder, "pooler", False):
            raise ConfigError("a classifier of tokens reads no pooler: encoder.pooler=True, allowed: false")
        if self.global_tokens and not isinstance(self.encoder, LongformerConfig):
            raise ConfigError(f"global_tokens={self.global_tokens}, allowed without windows: 0, as all tokens see all")

    @property
    def width(self) -> int:
        """Features of a token's vector."""
        encoder = self.encoder
        return encoder.recurrent.width if isinstance(encoder, RecurrentEncoderConfig) else encoder.width

    def build(self) -> TokenClassifier:
        return TokenClassifier(self)

    def smaller(self) -> TokenClassifierConfig | None:
        """With the next smaller encoder."""
        encoder = self.encoder.smaller()
        return None if encoder is None else replace(self, encoder=encoder)

    def with_backbone(self, encoder: BertConfig | LongformerConfig | RecurrentEncoderConfig) -> TokenClassifierConfig:
        """This classifier of another encoder, without a pooler; only a Longformer has global tokens."""
        plain = encoder if isinstance(encoder, RecurrentEncoderConfig) else replace(encoder, pooler=False)
        return replace(
            self, encoder=plain, global_tokens=self.global_tokens if isinstance(encoder, LongformerConfig) else 0
        )

    @property
    def text(self) -> TextSizes:
        return self.encoder.text.under("encoder")


class TokenClassifier(Model):
    """Tokens -> logits of each token."""

    def __init__(self, config: TokenClassifierConfig) -> None:
        super().__init__()
        self.vocab, self.global_tokens = config.encoder.vocab, config.global_tokens
        self.encoder: nn.Module = config.encoder.build()
        self.reads = self.reads & self.encoder.reads
        self.dropout = nn.Dropout(config.encoder.dropout if config.dropout is None else config.dropout)
        self.head = nn.Linear(config.width, config.classes)
        normal_init(self.head, config.encoder.init_std)

    def forward(self, tokens_BT: Tensor, lengths_B: Tensor | None = None, segments_BT: Tensor | None = None) -> Tensor:
        """(B, T) -> logits (B, T, classes); segments (B, T) are the text that a token belongs to."""
        logits: Tensor = self.head(self.dropout(self.features(tokens_BT, lengths_B, segments_BT)))
        return logits

    def features(self, tokens_BT: Tensor, lengths_B: Tensor | None = None, segments_BT: Tensor | None = None) -> Tensor:
        """(B, T) -> (B, T, D), of which the linear layer reads each token."""
        more: dict[str, Any] = {}
        if self.global_tokens:
            first_T = torch.arange(tokens_BT.shape[1], device=tokens_BT.device) < self.global_tokens
            more["global_BT"] = first_T.expand(tokens_BT.shape)
        return self.encoder(tokens_BT, lengths_B, segments_BT=segments_BT, **more)  # type: ignore[no-any-return]

    title = "encoder with an output for each token"
    reads = frozenset({"tokens", "lengths", "segments"})

    def run(self, inputs: ModelInputs) -> ModelOutputs:
        return ModelOutputs(tokens=self(inputs.need("tokens"), inputs.lengths, inputs.segments))
