"""A text classifier: an encoder, its pooler and a linear layer (BERT: Devlin et al. 2019, section 4.1)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from headway.config import positive
from headway.errors import ConfigError
from headway.models.bert import BertConfig
from headway.models.inputs import Model, ModelInputs, ModelOutputs, TextSizes
from headway.models.longformer import LongformerConfig
from headway.nn.linear import normal_init


@dataclass(frozen=True, slots=True, kw_only=True)
class TextClassifierConfig:
    """An encoder with a pooler, and how many classes there are."""

    encoder: BertConfig | LongformerConfig  # the encoder, with its sizes
    classes: int  # how many classes; the data sets it
    global_tokens: int = 0  # of a Longformer, from the first on: they see, and are seen by, all

    def __post_init__(self) -> None:
        positive("classes", self.classes)
        positive("global_tokens", self.global_tokens, least=0)
        if not self.encoder.pooler:
            raise ConfigError("a classifier reads the pooler: encoder.pooler=False, allowed: true")
        if self.global_tokens and not isinstance(self.encoder, LongformerConfig):
            raise ConfigError(f"global_tokens={self.global_tokens}, allowed without windows: 0, as all tokens see all")

    def build(self) -> TextClassifier:
        return TextClassifier(self)

    def smaller(self) -> TextClassifierConfig | None:
        """With the next smaller encoder."""
        encoder = self.encoder.smaller()
        return None if encoder is None else replace(self, encoder=encoder)

    def with_backbone(self, encoder: BertConfig | LongformerConfig) -> TextClassifierConfig:
        """This classifier of another encoder, with a pooler; only a Longformer has global tokens."""
        pooled = encoder if getattr(encoder, "pooler", True) else replace(encoder, pooler=True)
        return replace(
            self, encoder=pooled, global_tokens=self.global_tokens if isinstance(encoder, LongformerConfig) else 0
        )

    @property
    def text(self) -> TextSizes:
        return self.encoder.text.under("encoder")


class TextClassifier(Model):
    """Tokens -> logits of the classes of a text."""

    def __init__(self, config: TextClassifierConfig) -> None:
        super().__init__()
        self.vocab, self.global_tokens = config.encoder.vocab, config.global_tokens
        self.encoder: nn.Module = config.encoder.build()
        self.dropout = nn.Dropout(config.encoder.dropout)
        self.head = nn.Linear(config.encoder.width, config.classes)
        normal_init(self.head, config.encoder.init_std)

    def forward(self, tokens_BT: Tensor, lengths_B: Tensor | None = None) -> Tensor:
        """(B, T) -> logits (B, classes)."""
        hidden_BTD = self.features(tokens_BT, lengths_B)
        logits: Tensor = self.head(self.dropout(self.encoder.pool(hidden_BTD)))  # type: ignore[operator]
        return logits

    def features(self, tokens_BT: Tensor, lengths_B: Tensor | None = None) -> Tensor:
        """(B, T) -> (B, T, D), of which the pooler reads the first token."""
        if not self.global_tokens:
            return self.encoder(tokens_BT, lengths_B)  # type: ignore[no-any-return]
        first_T = torch.arange(tokens_BT.shape[1], device=tokens_BT.device) < self.global_tokens
        return self.encoder(tokens_BT, lengths_B, global_BT=first_T.expand(tokens_BT.shape))  # type: ignore[no-any-return]

    reads = frozenset({"tokens", "lengths"})

    def run(self, inputs: ModelInputs) -> ModelOutputs:
        return ModelOutputs(classes=self(inputs.need("tokens"), inputs.lengths))
