"""A text classifier: an encoder, one vector of the whole text, and a linear layer.

BERT and Longformer have a pooler on the first token, dropout and a layer with a bias (Devlin et al. 2019, section 4.1).
A GPT reads from left to right, so the last real token has seen the text: it alone is read, by a layer without a bias
(Radford et al. 2018, section 3.2; the bias is left out as in transformers' GPT2ForSequenceClassification).
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from headway.config import positive
from headway.errors import ConfigError
from headway.models.bert import Bert, BertConfig
from headway.models.gpt import Gpt, GptConfig
from headway.models.inputs import Model, ModelInputs, ModelOutputs, TextSizes
from headway.models.longformer import Longformer, LongformerConfig
from headway.models.registry import ModelConfig
from headway.nn.linear import normal_init


@dataclass(frozen=True, slots=True, kw_only=True)
class TextClassifierConfig:
    """An encoder, with a pooler unless it is a GPT, and how many classes there are."""

    encoder: BertConfig | LongformerConfig | GptConfig  # the encoder, with its sizes
    classes: int  # how many classes, 1 for a number; the data sets it
    global_tokens: int = 0  # of a Longformer, from the first on: they see, and are seen by, all
    centre: float = 0.0  # of a number: added to the output; the data sets it to the mean of the training labels
    scale: float = 1.0  # of a number: the output is multiplied by it; the data sets it to their standard deviation

    def __post_init__(self) -> None:
        positive("classes", self.classes)
        positive("global_tokens", self.global_tokens, least=0)
        if not isinstance(self.encoder, GptConfig) and not self.encoder.pooler:
            raise ConfigError("a classifier reads the pooler: encoder.pooler=False, allowed: true")
        if self.global_tokens and not isinstance(self.encoder, LongformerConfig):
            raise ConfigError(f"global_tokens={self.global_tokens}, allowed without windows: 0, as all tokens see all")
        if not self.scale > 0:
            raise ConfigError(f"scale={self.scale}, allowed: above 0")

    def build(self) -> TextClassifier:
        return TextClassifier(self)

    def smaller(self) -> TextClassifierConfig | None:
        """With the next smaller encoder."""
        encoder = self.encoder.smaller()
        return None if encoder is None else replace(self, encoder=encoder)

    def with_backbone(self, encoder: BertConfig | LongformerConfig | GptConfig) -> TextClassifierConfig:
        """This classifier of another encoder, with a pooler unless it is a GPT; only a Longformer has global tokens."""
        pooled = encoder if isinstance(encoder, GptConfig) else replace(encoder, pooler=True)
        return replace(
            self, encoder=pooled, global_tokens=self.global_tokens if isinstance(encoder, LongformerConfig) else 0
        )

    @property
    def text(self) -> TextSizes:
        return self.encoder.text.under("encoder")


class TextClassifier(Model):
    """Tokens -> logits of the classes of a text, or of a pair of texts; of a number, the number itself."""

    def __init__(self, config: TextClassifierConfig) -> None:
        super().__init__()
        encoder = config.encoder
        self.vocab, self.global_tokens = encoder.vocab, config.global_tokens
        self.centre, self.scale = config.centre, config.scale
        self.encoder: Bert | Longformer | Gpt = encoder.build()
        if isinstance(self.encoder, Gpt):
            del self.encoder.head  # the output layer for tokens, which a classifier does not use
        self.dropout = nn.Dropout(0.0 if isinstance(encoder, GptConfig) else encoder.dropout)
        self.head = nn.Linear(encoder.width, config.classes, bias=not isinstance(encoder, GptConfig))
        normal_init(self.head, encoder.init_std)
        if encoder.text.segments > 1:
            self.reads = self.reads | {"segments"}

    def forward(self, tokens_BT: Tensor, lengths_B: Tensor | None = None, segments_BT: Tensor | None = None) -> Tensor:
        """(B, T) -> logits (B, classes); segments (B, T) say which text of a pair a token belongs to."""
        pooled_BD = self.pooled(self.features(tokens_BT, lengths_B, segments_BT), lengths_B)
        logits: Tensor = self.head(self.dropout(pooled_BD))
        return logits if (self.centre, self.scale) == (0.0, 1.0) else logits * self.scale + self.centre

    def pooled(self, hidden_BTD: Tensor, lengths_B: Tensor | None = None) -> Tensor:
        """(B, T, D) -> (B, D): the pooler's vector of the first token; of a GPT, the vector of the last real one."""
        if not isinstance(self.encoder, Gpt):
            return self.encoder.pool(hidden_BTD)
        if lengths_B is None:
            return hidden_BTD[:, -1]
        return hidden_BTD[torch.arange(len(hidden_BTD), device=hidden_BTD.device), lengths_B - 1]

    def features(self, tokens_BT: Tensor, lengths_B: Tensor | None = None, segments_BT: Tensor | None = None) -> Tensor:
        """(B, T) -> (B, T, D), of which `pooled` reads one token."""
        if isinstance(self.encoder, Gpt):
            if segments_BT is not None:
                raise ConfigError("a GPT has no embedding of segments")
            return self.encoder.features(tokens_BT, lengths_B)
        hidden: Tensor
        if not self.global_tokens:
            hidden = self.encoder(tokens_BT, lengths_B, segments_BT=segments_BT)
            return hidden
        first_T = torch.arange(tokens_BT.shape[1], device=tokens_BT.device) < self.global_tokens
        marked_BT = first_T.expand(tokens_BT.shape)
        hidden = self.encoder(tokens_BT, lengths_B, segments_BT=segments_BT, global_BT=marked_BT)
        return hidden

    title = "encoder with one output for a text"
    reads = frozenset({"tokens", "lengths"})

    def run(self, inputs: ModelInputs) -> ModelOutputs:
        return ModelOutputs(classes=self(inputs.need("tokens"), inputs.lengths, inputs.segments))


def unscaled(model: Model, config: ModelConfig) -> tuple[Model, ModelConfig]:
    """A text classifier of numbers whose head alone gives them: with its `scale` and `centre` in weight and bias.

    Any other model is returned as it is. Raises ConfigError for a head without the bias that a centre needs.
    """
    if not isinstance(config, TextClassifierConfig) or (config.centre, config.scale) == (0.0, 1.0):
        return model, config
    made = copy.deepcopy(model)
    assert isinstance(made, TextClassifier)
    if made.head.bias is None:
        raise ConfigError(f"the head of a GPT has no bias, so that centre={config.centre:g} has no place in it")
    with torch.no_grad():
        made.head.weight.mul_(config.scale)
        made.head.bias.mul_(config.scale).add_(config.centre)
    made.centre, made.scale = 0.0, 1.0
    return made, replace(config, centre=0.0, scale=1.0)
