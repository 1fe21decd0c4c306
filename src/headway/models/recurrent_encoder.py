"""A recurrent encoder: a vector a token from both sides (bidirectional LSTM: Graves and Schmidhuber 2005)."""

from __future__ import annotations

from dataclasses import dataclass, replace

from torch import Tensor, nn

from headway.config import positive, probability
from headway.errors import ConfigError
from headway.models.inputs import Model, ModelInputs, ModelOutputs, TextSizes
from headway.nn.dropout import Dropout
from headway.nn.embedding import TokenEmbedding, TokenEmbeddingConfig, check_lengths
from headway.nn.recurrent import Recurrent, RecurrentConfig

BOTH_SIDES = RecurrentConfig(hidden=128, layers=2, cell="lstm", bidirectional=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecurrentEncoderConfig:
    """Embeddings and recurrent layers; the place of a transformer in a model that has a vector a token."""

    vocab: int = 1000  # tokens in the vocabulary; the data sets it
    width: int = 128  # features of a token's embedding
    segments: int = 2  # kinds of segments with an embedding each; 0: none
    recurrent: RecurrentConfig = BOTH_SIDES  # the layers; without `bidirectional` a token knows only what is before it
    dropout: float = 0.1  # on the embeddings
    init_std: float = 0.02  # standard deviation of the initial embeddings; the layers begin as torch's do

    def __post_init__(self) -> None:
        positive("width", self.width)
        probability("dropout", self.dropout)

    def build(self) -> RecurrentEncoder:
        return RecurrentEncoder(self)

    def smaller(self) -> RecurrentEncoderConfig | None:
        """Half the width and the hidden state, down to 64."""
        if min(self.width, self.recurrent.hidden) < 128:
            return None
        return replace(
            self, width=self.width // 2, recurrent=replace(self.recurrent, hidden=self.recurrent.hidden // 2)
        )

    @property
    def text(self) -> TextSizes:
        return TextSizes(vocab=self.vocab, segments=max(self.segments, 1))


class RecurrentEncoder(Model):
    """Tokens -> one vector for each token, as wide as the recurrent layers' output."""

    def __init__(self, config: RecurrentEncoderConfig) -> None:
        super().__init__()
        self.vocab = config.vocab
        self.embedding = TokenEmbedding(TokenEmbeddingConfig(vocab=config.vocab, width=config.width))
        tables = [self.embedding]
        self.segment_embedding: TokenEmbedding | None = None
        if config.segments:
            self.segment_embedding = TokenEmbedding(TokenEmbeddingConfig(vocab=config.segments, width=config.width))
            tables.append(self.segment_embedding)
        else:
            self.reads = self.reads - {"segments"}
        self.recurrent = Recurrent(config.width, config.recurrent)
        self.dropout = Dropout(config.dropout)
        for table in tables:
            nn.init.normal_(table.weight, std=config.init_std)

    def forward(
        self, tokens_BT: Tensor, lengths_B: Tensor | None = None, *, segments_BT: Tensor | None = None
    ) -> Tensor:
        """(B, T) -> (B, T, D), zero on padding; segments (B, T) are the text each token belongs to, the first if None.

        Raises ConfigError for segments where there is no embedding of them.
        """
        check_lengths(lengths_B, tokens_BT)
        x_BTD = self.embedding(tokens_BT)
        if self.segment_embedding is not None:
            segments = self.segment_embedding.weight[0] if segments_BT is None else self.segment_embedding(segments_BT)
            x_BTD = x_BTD + segments
        elif segments_BT is not None:
            raise ConfigError("this model has no embedding of segments (segments=0)")
        x_BTD = self.dropout(x_BTD)
        hidden_BTD, _ = self.recurrent(x_BTD, self.recurrent.start(x_BTD, len(x_BTD)), lengths_B)
        vectors: Tensor = hidden_BTD
        return vectors

    title = "recurrent encoder"
    reads = frozenset({"tokens", "lengths", "segments"})

    def run(self, inputs: ModelInputs) -> ModelOutputs:
        return ModelOutputs(vectors=self(inputs.need("tokens"), inputs.lengths, segments_BT=inputs.segments))
