"""The side of a model that writes text about what an encoder read: the captioner's and the transcriber's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar, Protocol

import torch
from torch import Tensor, nn

from headway.models.encoder_decoder import DecoderState, last_cross_attention
from headway.models.inputs import Model
from headway.models.pre_norm import PreNormSizes, pre_norm_stack
from headway.models.stepper import SourceAttention
from headway.nn.embedding import Head, TokenEmbedding, TokenEmbeddingConfig, check_lengths
from headway.nn.linear import xavier_init
from headway.nn.memory import Memory
from headway.nn.stack import Stack, StackConfig
from headway.ops import Causal


class DecoderSizes(PreNormSizes, Protocol):
    """The fields of a config that its decoder is made of."""

    @property
    def vocab(self) -> int: ...
    @property
    def decoder_layers(self) -> int: ...


def decoder_stack(config: DecoderSizes) -> StackConfig:
    """A pre-norm stack whose tokens attend to earlier ones and to all of the source."""
    return pre_norm_stack(config, config.decoder_layers, decoder=True)


class TextDecoder(Model):
    """A model with a decoder of text; a subclass builds its encoder, then calls `build_decoder`."""

    writes: ClassVar[str]  # what its text is called in errors

    embedding: TokenEmbedding
    decoder: Stack
    head: Head

    def build_decoder(self, config: DecoderSizes) -> None:
        """Add the embedding, the stack and the head, which is tied to the embedding."""
        width = config.width
        self.vocab = config.vocab
        self.embedding = TokenEmbedding(TokenEmbeddingConfig(vocab=config.vocab, width=width, scale=width**0.5))
        self.decoder = Stack(decoder_stack(config))
        self.head = Head(width, config.vocab, tied=True, bias=False)
        xavier_init(self.decoder)
        nn.init.normal_(self.embedding.weight, std=width**-0.5)

    def decode(self, tokens_BT: Tensor, lengths_B: Tensor | None, memory: Memory) -> Tensor:
        """Tokens so far (B, T) -> (B, T, D), what the output layer reads; they may be padded on the right."""
        check_lengths(lengths_B, tokens_BT, self.writes)
        x_BTD: Tensor = self.decoder(self.embedding(tokens_BT), mask=Causal(), memory=memory)
        return x_BTD

    def read(self, hidden_BTD: Tensor) -> Tensor:
        """The decoder's output (B, T, D) -> logits (B, T, V)."""
        logits: Tensor = self.head(hidden_BTD, self.embedding.weight)
        return logits

    def output(self) -> tuple[Tensor, Tensor | None]:
        """The output layer's matrix (V, D) and bias."""
        return self.head.matrix(self.embedding.weight), self.head.bias

    def source_attention(self) -> SourceAttention | None:
        """The last decoder layer's cross-attention, weights (B, H, T, S); None without a layer."""
        return last_cross_attention(self.decoder)

    @torch.no_grad()
    def extend(
        self, tokens_BK: Tensor, state: DecoderState, counts_B: Tensor | None = None
    ) -> tuple[Tensor, DecoderState]:
        """(B, K) -> logits (B, K, V) and the state after them."""
        check_lengths(counts_B, tokens_BK, self.writes)
        count = tokens_BK.shape[1]
        cache = state.cache.ready(count, counts_B)
        x = self.decoder(self.embedding(tokens_BK), mask=Causal(offset=cache.length), cache=cache, memory=state.memory)
        return self.head(x, self.embedding.weight), replace(state, cache=cache.advanced(count, counts_B))

    def select(self, state: DecoderState, rows_B: Tensor) -> DecoderState:
        """These rows, in this order."""
        return DecoderState(state.cache.select(rows_B), state.memory.select(rows_B))

    def joint(self, states: Sequence[DecoderState], rows: Sequence[int], blanks: int) -> DecoderState | None:
        """Several states, for one more token of each of their rows."""
        return DecoderState.joint(states, rows, blanks)

    def members(self, state: DecoderState) -> list[DecoderState]:
        """The states of a joint one."""
        return state.members()
