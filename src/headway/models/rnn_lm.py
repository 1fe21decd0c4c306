"""The recurrent language model: the tokens so far -> a distribution over the next one (Mikolov et al. 2010)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import get_args

import torch
from torch import Tensor, nn

from headway.config import probability
from headway.errors import ConfigError
from headway.models.inputs import Model, ModelInputs, ModelOutputs, TextSizes
from headway.models.stepper import EncoderInput
from headway.nn.dropout import Dropout
from headway.nn.embedding import Head, OneHot, TokenEmbedding, TokenEmbeddingConfig, TokenInput, check_lengths
from headway.nn.recurrent import Hidden, Recurrent, RecurrentConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class RnnLmConfig:
    """A recurrent language model."""

    vocab: int  # tokens in the vocabulary
    recurrent: RecurrentConfig  # the recurrent layers
    input: TokenInput = "embedding"  # how tokens enter: as a learned embedding or as one-hot vectors
    width: int = 32  # of the embedding; one-hot input is as wide as the vocabulary
    tied: bool = False  # the output matrix is the embedding
    dropout: float = 0.0  # on what enters and leaves the recurrent layers

    def __post_init__(self) -> None:
        probability("dropout", self.dropout)
        if self.input not in get_args(TokenInput):
            raise ConfigError(f"input={self.input!r}, allowed: {', '.join(get_args(TokenInput))}")
        if self.recurrent.bidirectional:
            raise ConfigError("recurrent.bidirectional=True: a language model must not read what it predicts")
        if self.tied and (self.input != "embedding" or self.width != self.recurrent.hidden):
            raise ConfigError(
                f"tied=True needs input='embedding' with width={self.width} equal to hidden={self.recurrent.hidden}"
            )

    def build(self) -> RnnLm:
        return RnnLm(self)

    def smaller(self) -> RnnLmConfig | None:
        """Half the width and the hidden state, down to 64."""
        if min(self.width, self.recurrent.hidden) < 128:
            return None
        return replace(
            self, width=self.width // 2, recurrent=replace(self.recurrent, hidden=self.recurrent.hidden // 2)
        )

    @property
    def text(self) -> TextSizes:
        return TextSizes(vocab=self.vocab)


@dataclass(frozen=True, slots=True)
class RnnState:
    """Each layer's hidden state after the tokens so far; None before the first."""

    hidden: tuple[Hidden, ...] | None = None


def select_hidden(hidden: tuple[Hidden, ...], rows_B: Tensor) -> tuple[Hidden, ...]:
    """These batch rows of every layer's state, in this order."""
    return tuple(tuple(part[:, rows_B] for part in layer) for layer in hidden)


def join_hidden(states: Sequence[tuple[Hidden, ...]]) -> tuple[Hidden, ...]:
    """Every layer's state of the rows of several batches, in their order."""
    layers = zip(*states, strict=True)
    return tuple(tuple(torch.cat(parts, 1) for parts in zip(*layer, strict=True)) for layer in layers)


class RnnLm(Model):
    """Tokens -> logits for each next token."""

    def __init__(self, config: RnnLmConfig) -> None:
        super().__init__()
        self.vocab = config.vocab
        one_hot = config.input == "one-hot"
        self.embedding: OneHot | TokenEmbedding
        if one_hot:
            self.embedding = OneHot(config.vocab)
        else:
            self.embedding = TokenEmbedding(TokenEmbeddingConfig(vocab=config.vocab, width=config.width))
        self.recurrent = Recurrent(config.vocab if one_hot else config.width, config.recurrent)
        self.head = Head(config.recurrent.hidden, config.vocab, tied=config.tied, bias=True)
        for table in (self.embedding.weight, self.head.weight):
            if table is not None:
                nn.init.uniform_(table, -0.1, 0.1)
        self.dropout = Dropout(config.dropout)

    def forward(self, tokens_BT: Tensor, lengths_B: Tensor | None = None) -> Tensor:
        """(B, T) -> logits (B, T, V); rows may be padded on the right."""
        return self.read(self.features(tokens_BT, lengths_B))

    def read(self, hidden_BTD: Tensor) -> Tensor:
        """What the layers give (B, T, D) -> logits (B, T, V)."""
        logits: Tensor = self.head(hidden_BTD, self.embedding.weight)
        return logits

    def features(self, tokens_BT: Tensor, lengths_B: Tensor | None = None) -> Tensor:
        """(B, T) -> (B, T, D), what the output layer reads."""
        check_lengths(lengths_B, tokens_BT)
        return self._run(tokens_BT, None, None)[0]

    def output(self) -> tuple[Tensor, Tensor | None]:
        """The output layer's matrix (V, D) and bias."""
        return self.head.matrix(self.embedding.weight), self.head.bias

    def start(self, source: EncoderInput | None = None, *, capacity: int = 64) -> RnnState:
        """The state before the first token. Raises ConfigError for a source; a recurrent model needs no capacity."""
        if source is not None:
            raise ConfigError("a language model takes no source: give the prompt to `extend`")
        return RnnState()

    @torch.no_grad()
    def extend(self, tokens_BK: Tensor, state: RnnState, counts_B: Tensor | None = None) -> tuple[Tensor, RnnState]:
        """(B, K) -> logits (B, K, V) and the state after each row's last real token."""
        x_BKD, state = self.extend_hidden(tokens_BK, state, counts_B)
        return self.read(x_BKD), state

    @torch.no_grad()
    def extend_hidden(
        self, tokens_BK: Tensor, state: RnnState, counts_B: Tensor | None = None
    ) -> tuple[Tensor, RnnState]:
        """The same before the output layer: (B, K, D)."""
        check_lengths(counts_B, tokens_BK)
        x_BKD, hidden = self._run(tokens_BK, state.hidden, counts_B)
        return x_BKD, RnnState(hidden)

    def select(self, state: RnnState, rows_B: Tensor) -> RnnState:
        """These rows, in this order."""
        return state if state.hidden is None else RnnState(select_hidden(state.hidden, rows_B))

    def join(self, states: Sequence[RnnState]) -> RnnState:
        """The rows of several states, in their order."""
        return RnnState(join_hidden([state.hidden for state in states if state.hidden is not None]))

    def fork(self, state: RnnState, rows_B: Tensor) -> RnnState:
        """A copy of these rows."""
        return self.select(state, rows_B)

    def _run(
        self, tokens_BT: Tensor, hidden: tuple[Hidden, ...] | None, lengths_B: Tensor | None
    ) -> tuple[Tensor, tuple[Hidden, ...]]:
        x = self.dropout(self.embedding(tokens_BT))
        hidden = self.recurrent.start(x, len(x)) if hidden is None else hidden
        x, hidden = self.recurrent(x, hidden, lengths_B)
        return self.dropout(x), hidden

    title = "recurrent language model"
    reads = frozenset({"tokens", "lengths"})

    def run(self, inputs: ModelInputs) -> ModelOutputs:
        return ModelOutputs(tokens=self(inputs.need("tokens"), inputs.lengths))
