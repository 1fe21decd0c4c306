"""Recurrent sequence to sequence (Sutskever et al. 2014), with or without attention (Bahdanau et al. 2015).

The attended context may be combined with the output, fed to the second layer, or fed to the next step's input (input
feeding, Luong et al. 2015, section 3.3).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, get_args

import torch
from torch import Tensor, nn

from headway.config import probability
from headway.errors import ConfigError
from headway.models.inputs import Model, ModelInputs, ModelOutputs, TextSizes
from headway.models.rnn_lm import select_hidden
from headway.models.stepper import EncoderInput, SourceAttention
from headway.nn.dropout import Dropout
from headway.nn.embedding import TokenEmbedding, TokenEmbeddingConfig, check_lengths
from headway.nn.recurrent import Hidden, Recurrent, RecurrentConfig, RecurrentLayer, reverse_padded
from headway.nn.rnn_attention import Aligned, Alignment, AlignmentConfig

ContextUse = Literal["readout", "next_layer", "input"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RnnSeq2SeqConfig:
    """A recurrent encoder and decoder, and what the decoder may see of the source."""

    vocab: int  # of the target, and of the source unless it has its own
    source_vocab: int | None = None  # tokens in the source vocabulary; none: the target's serves both
    width: int = 256  # of the embeddings
    encoder: RecurrentConfig  # the recurrent layers that read the source
    decoder: RecurrentConfig  # the recurrent layers that write the target
    attention: AlignmentConfig | None = None  # none: the source is known only by the encoder's last state
    context: tuple[ContextUse, ...] = ("readout",)  # where the attended source goes; the uses may be joined
    reverse_source: bool = False  # read the source from its end (Sutskever et al. 2014)
    dropout: float = 0.0  # on the embeddings and before the readout

    def __post_init__(self) -> None:
        probability("dropout", self.dropout)
        if self.decoder.bidirectional:
            raise ConfigError("decoder.bidirectional=True: a decoder must not read what it predicts")
        if self.encoder.cell != self.decoder.cell:
            raise ConfigError(f"encoder.cell={self.encoder.cell!r} and decoder.cell={self.decoder.cell!r} must agree")
        for use in self.context:
            if use not in get_args(ContextUse):
                raise ConfigError(f"context use {use!r}, allowed: {', '.join(get_args(ContextUse))}")
        if self.attention is not None and not self.context:
            raise ConfigError(f"context=() leaves the attention unused; allowed: {', '.join(get_args(ContextUse))}")
        if "next_layer" in self.context and self.attention and self.decoder.layers < 2:
            raise ConfigError(f"context use 'next_layer' needs decoder.layers >= 2, got {self.decoder.layers}")

    def build(self) -> RnnSeq2Seq:
        return RnnSeq2Seq(self)

    def smaller(self) -> RnnSeq2SeqConfig | None:
        """Half the width and the hidden states, down to 64."""
        if min(self.width, self.encoder.hidden, self.decoder.hidden) < 128:
            return None
        encoder, decoder = (replace(side, hidden=side.hidden // 2) for side in (self.encoder, self.decoder))
        return replace(self, width=self.width // 2, encoder=encoder, decoder=decoder)

    @property
    def text(self) -> TextSizes:
        return TextSizes(vocab=self.vocab, source_vocab=self.source_vocab)


@dataclass(frozen=True, slots=True)
class Seq2SeqState:
    """The decoder's hidden states, the context for its next input, and the source that it attends to."""

    hidden: tuple[Hidden, ...]
    context: Tensor | None  # (B, 1, memory width), for context use "input"
    source: Aligned | None


class RnnSeq2Seq(Model):
    """Source and target prefix -> logits for each next target token."""

    def __init__(self, config: RnnSeq2SeqConfig) -> None:
        super().__init__()
        encoder, decoder, width = config.encoder, config.decoder, config.width
        self.vocab, self.reverse_source = config.vocab, config.reverse_source
        source_vocab = config.vocab if config.source_vocab is None else config.source_vocab
        self.source_embedding = TokenEmbedding(TokenEmbeddingConfig(vocab=source_vocab, width=width))
        self.target_embedding = TokenEmbedding(TokenEmbeddingConfig(vocab=config.vocab, width=width))
        self.encoder = Recurrent(width, encoder)
        self.attention = Alignment(encoder.width, decoder.hidden, config.attention) if config.attention else None
        uses = config.context if config.attention else ()
        self.to_input, self.to_layer, self.to_readout = (use in uses for use in ("input", "next_layer", "readout"))
        first = width + (encoder.width if self.to_input else 0)
        second = decoder.hidden + (encoder.width if self.to_layer else 0)
        widths = [first, second, *[decoder.hidden] * decoder.layers][: decoder.layers]
        self.decoder = nn.ModuleList(RecurrentLayer(inputs, decoder) for inputs in widths)
        # The encoder's last state starts the decoder: as it is where the sizes allow, else through a linear layer.
        direct = encoder.width == decoder.hidden
        states = 2 if decoder.cell == "lstm" else 1
        self.bridges = (
            None if direct else nn.ModuleList(nn.Linear(encoder.width, decoder.hidden) for _ in range(states))
        )
        self.combine = nn.Linear(decoder.hidden + encoder.width, decoder.hidden) if self.to_readout else None
        self.head = nn.Linear(decoder.hidden, config.vocab)
        self.dropout = Dropout(config.dropout)
        self.between = Dropout(decoder.dropout)
        for table in (self.source_embedding, self.target_embedding):
            nn.init.uniform_(table.weight, -0.1, 0.1)

    def encode(self, source: EncoderInput) -> Seq2SeqState:
        """Read the source: the state the decoder starts from."""
        check_lengths(source.lengths, source.tokens, "source")
        tokens = reverse_padded(source.tokens, source.lengths) if self.reverse_source else source.tokens
        x = self.dropout(self.source_embedding(tokens))
        memory, last = self.encoder(x, self.encoder.start(x, len(x)), source.lengths)
        hidden = tuple(self._bridge(last[min(k, len(last) - 1)]) for k in range(len(self.decoder)))
        if self.attention is None:
            return Seq2SeqState(hidden, None, None)
        aligned = self.attention.prepare(memory, source.lengths)
        # The first input has a context, too: that of the decoder's first state.
        first = hidden[-1][0].transpose(0, 1)
        context = self.attention(first, aligned, recorded=False) if self.to_input else None
        return Seq2SeqState(hidden, context, aligned)

    def forward(
        self,
        source_BS: Tensor,
        target_BT: Tensor,
        source_lengths_B: Tensor | None = None,
        target_lengths_B: Tensor | None = None,
    ) -> Tensor:
        """Source (B, S), target prefix (B, T) -> logits (B, T, V); both may be padded on the right."""
        logits: Tensor = self.head(self.features(source_BS, target_BT, source_lengths_B, target_lengths_B))
        return logits

    def features(
        self,
        source_BS: Tensor,
        target_BT: Tensor,
        source_lengths_B: Tensor | None = None,
        target_lengths_B: Tensor | None = None,
    ) -> Tensor:
        """Source (B, S), target prefix (B, T) -> (B, T, D), what the output layer reads."""
        check_lengths(target_lengths_B, target_BT, "target")
        return self._decode(target_BT, self.encode(EncoderInput(source_BS, source_lengths_B)), None)[0]

    def output(self) -> tuple[Tensor, Tensor | None]:
        """The output layer's matrix (V, D) and bias."""
        return self.head.weight, self.head.bias

    def source_attention(self) -> SourceAttention | None:
        """Its attention over the source, weights (B, T, S) in the order of reading; None without attention."""
        if self.attention is None:
            return None
        return SourceAttention(self.attention.tap_weights, reversed=self.reverse_source)

    @torch.no_grad()
    def start(self, source: EncoderInput | None = None, *, capacity: int = 64) -> Seq2SeqState:
        """Read the source; a recurrent decoder needs no capacity."""
        if source is None:
            raise ConfigError("a sequence-to-sequence model needs a source to start from")
        return self.encode(source)

    @torch.no_grad()
    def extend(
        self, tokens_BK: Tensor, state: Seq2SeqState, counts_B: Tensor | None = None
    ) -> tuple[Tensor, Seq2SeqState]:
        """(B, K) -> logits (B, K, V) and the state after each row's last real token."""
        check_lengths(counts_B, tokens_BK, "target")
        x_BKD, state = self._decode(tokens_BK, state, counts_B)
        return self.head(x_BKD), state

    def select(self, state: Seq2SeqState, rows_B: Tensor) -> Seq2SeqState:
        """These rows, in this order."""
        return Seq2SeqState(
            select_hidden(state.hidden, rows_B),
            None if state.context is None else state.context[rows_B],
            None if state.source is None else state.source.select(rows_B),
        )

    def _bridge(self, last: Hidden) -> Hidden:
        joined = tuple(part.transpose(0, 1).flatten(1) for part in last)  # (directions, B, h) -> (B, directions·h)
        if self.bridges is not None:
            joined = tuple(bridge(part).tanh() for bridge, part in zip(self.bridges, joined, strict=True))
        return tuple(part.unsqueeze(0).contiguous() for part in joined)

    def _decode(self, tokens_BT: Tensor, state: Seq2SeqState, counts_B: Tensor | None) -> tuple[Tensor, Seq2SeqState]:
        x_BTD = self.dropout(self.target_embedding(tokens_BT))
        context_BTW: Tensor | None = None
        if self.to_input:
            top, context_BTW, state = self._step_by_step(x_BTD, state, counts_B)
        else:
            top, hidden = self._layers(x_BTD, state, counts_B)
            state = Seq2SeqState(hidden, None, state.source)
            if self.to_readout:
                context_BTW = self._attend(top, state)
        if self.combine is not None and context_BTW is not None:
            top = self.combine(torch.cat([top, context_BTW], -1)).tanh()
        return self.dropout(top), state

    def _attend(self, states_BTW: Tensor, state: Seq2SeqState, *, recorded: bool = True) -> Tensor:
        assert self.attention is not None
        assert state.source is not None
        context: Tensor = self.attention(states_BTW, state.source, recorded=recorded)
        return context

    def _layers(self, x_BTD: Tensor, state: Seq2SeqState, counts_B: Tensor | None) -> tuple[Tensor, tuple[Hidden, ...]]:
        """All layers over all steps at once, which needs no context of the step before."""
        after: list[Hidden] = []
        for k, layer in enumerate(self.decoder):
            if k:
                x_BTD = self.between(x_BTD)
            if k == 1 and self.to_layer:
                only = not (self.to_input or self.to_readout)
                x_BTD = torch.cat([x_BTD, self._attend(x_BTD, state, recorded=only)], -1)
            x_BTD, last = layer(x_BTD, state.hidden[k], counts_B)
            after.append(last)
        return x_BTD, tuple(after)

    def _step_by_step(
        self, x_BTD: Tensor, state: Seq2SeqState, counts_B: Tensor | None
    ) -> tuple[Tensor, Tensor, Seq2SeqState]:
        """[s; a; x]: each step's input contains the context of the step before."""
        tops, contexts = [], []
        for t in range(x_BTD.shape[1]):
            assert state.context is not None
            top, hidden = self._layers(torch.cat([x_BTD[:, t : t + 1], state.context], -1), state, None)
            context = self._attend(top, state)
            tops.append(top)
            contexts.append(context)
            if counts_B is not None:  # rows whose tokens have ended keep the state they ended with
                going = (counts_B > t).view(-1, 1)
                hidden = tuple(
                    tuple(torch.where(going, new, old) for new, old in zip(layer, before, strict=True))
                    for layer, before in zip(hidden, state.hidden, strict=True)
                )
                context = torch.where(going.unsqueeze(-1), context, state.context)
            state = Seq2SeqState(hidden, context, state.source)
        return torch.cat(tops, 1), torch.cat(contexts, 1), state

    title = "recurrent encoder-decoder"
    reads = frozenset({"source", "tokens", "source_lengths", "lengths"})

    def run(self, inputs: ModelInputs) -> ModelOutputs:
        source, target = inputs.need("source"), inputs.need("tokens")
        return ModelOutputs(tokens=self(source, target, inputs.source_lengths, inputs.lengths))
