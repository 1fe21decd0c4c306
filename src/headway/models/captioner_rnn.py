"""A convolutional encoder and a recurrent decoder for captions, trained end to end (Vinyals et al. 2015).

Here the image is the decoder's first state, where the paper's is its first input; attention over the positions of the
feature map is that of Xu et al. 2015 ("Show, Attend and Tell").
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from headway.config import positive, probability
from headway.errors import ConfigError, DataError
from headway.models.inputs import Model, ModelInputs, ModelOutputs, TextSizes
from headway.models.rnn_lm import select_hidden
from headway.models.stepper import EncoderInput, SourceAttention, images_of
from headway.nn.convolutions import channels_last, halving
from headway.nn.dropout import Dropout
from headway.nn.embedding import TokenEmbedding, TokenEmbeddingConfig, check_lengths
from headway.nn.patches import Grid, check_images
from headway.nn.recurrent import Hidden, Recurrent, RecurrentConfig
from headway.nn.rnn_attention import Aligned, Alignment, AlignmentConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptionerRnnConfig:
    """Residual blocks, each at half the resolution of the one before, and a recurrent decoder.

    The whole feature map is the decoder's first state, h_0 = tanh(W·CNN(image)); with attention every token also
    attends to its positions.
    """

    vocab: int  # tokens in the vocabulary
    image: int = 32  # pixels a side
    channels: int = 3  # of an image: 3 for colour, 1 for grey and for sound
    widths: tuple[int, ...] = (32, 64, 128)  # of the blocks
    width: int = 64  # of the word embeddings
    decoder: RecurrentConfig  # the recurrent layers that write the caption
    attention: AlignmentConfig | None = None  # how each word attends to the image's feature map; none: no attention
    dropout: float = 0.0  # on the embeddings, on the map as the first state sees it, and before the output

    def __post_init__(self) -> None:
        for name in ("vocab", "image", "channels", "width"):
            positive(name, getattr(self, name))
        if not self.widths:
            raise ConfigError("widths=(), allowed: one width or more, one for each block")
        for width in self.widths:
            positive("widths", width)
        probability("dropout", self.dropout)
        if self.decoder.bidirectional:
            raise ConfigError("decoder.bidirectional=True: a decoder must not read what it predicts")

    @property
    def places(self) -> int:
        """Positions of the last feature map: a block halves each side, rounded up."""
        side = self.image
        for _ in self.widths:
            side = (side + 1) // 2
        return side * side

    def build(self) -> CaptionerRnn:
        return CaptionerRnn(self)

    @property
    def text(self) -> TextSizes:
        return TextSizes(vocab=self.vocab)


@dataclass(frozen=True, slots=True)
class CaptionState:
    """The decoder's hidden states, and the feature map that it attends to."""

    hidden: tuple[Hidden, ...]
    picture: Aligned | None


class CaptionerRnn(Model):
    """Images and the words so far -> logits for each next word."""

    def __init__(self, config: CaptionerRnnConfig) -> None:
        super().__init__()
        self.vocab, self.image, self.channels = config.vocab, config.image, config.channels
        self.convolutions = halving(config.channels, config.widths)
        seen, decoder = config.widths[-1], config.decoder
        states = decoder.layers * (2 if decoder.cell == "lstm" else 1)
        self.first = nn.Linear(config.places * seen, states * decoder.hidden)
        self.embedding = TokenEmbedding(TokenEmbeddingConfig(vocab=config.vocab, width=config.width))
        self.decoder = Recurrent(config.width, decoder)
        self.attention = Alignment(seen, decoder.hidden, config.attention) if config.attention else None
        self.combine = nn.Linear(decoder.hidden + seen, decoder.hidden) if config.attention else None
        # A weighted sum loses the order of the map, which tells where things are: each position has a vector.
        self.places = nn.Parameter(0.1 * torch.randn(config.places, seen)) if config.attention else None
        self.head = nn.Linear(decoder.hidden, config.vocab)
        self.dropout = Dropout(config.dropout)
        self.layers, self.states = decoder.layers, states // decoder.layers
        nn.init.uniform_(self.embedding.weight, -0.1, 0.1)

    def encode(self, images: Tensor) -> CaptionState:
        """Encode the images (B, C, height, width): the state the decoder starts from."""
        check_images(images, self.channels)
        if images.shape[2:] != (self.image, self.image):
            got = f"{images.shape[2]} x {images.shape[3]}"
            raise DataError(f"images are {got} pixels, this model reads {self.image} x {self.image} pixels")
        seen = self.convolutions(channels_last(images))
        first = self.first(self.dropout(seen.flatten(1))).tanh()
        parts = iter(first.unsqueeze(0).chunk(self.layers * self.states, -1))
        hidden = tuple(tuple(next(parts).contiguous() for _ in range(self.states)) for _ in range(self.layers))
        if self.attention is None:
            return CaptionState(hidden, None)
        return CaptionState(hidden, self.attention.prepare(seen.flatten(2).mT + self.places, None))

    def forward(self, images: Tensor, tokens_BT: Tensor, lengths_B: Tensor | None = None) -> Tensor:
        """Images (B, C, height, width), words so far (B, T) -> logits (B, T, V); words may be padded on the right."""
        logits: Tensor = self.head(self.features(images, tokens_BT, lengths_B))
        return logits

    def features(self, images: Tensor, tokens_BT: Tensor, lengths_B: Tensor | None = None) -> Tensor:
        """Images and words so far (B, T) -> (B, T, D), what the output layer reads."""
        check_lengths(lengths_B, tokens_BT, "caption")
        return self._decode(tokens_BT, self.encode(images), None)[0]

    def output(self) -> tuple[Tensor, Tensor | None]:
        """The output layer's matrix (V, D) and bias."""
        return self.head.weight, self.head.bias

    def source_attention(self) -> SourceAttention | None:
        """Its attention over the map, weights (B, T, positions) row by row; None without attention."""
        return None if self.attention is None else SourceAttention(self.attention.tap_weights)

    @torch.no_grad()
    def start(self, source: EncoderInput | None = None, *, capacity: int = 64) -> CaptionState:
        """Encode the images; a recurrent decoder needs no capacity."""
        return self.encode(images_of(source))

    @torch.no_grad()
    def extend(
        self, tokens_BK: Tensor, state: CaptionState, counts_B: Tensor | None = None
    ) -> tuple[Tensor, CaptionState]:
        """(B, K) -> logits (B, K, V) and the state after each row's last real token."""
        check_lengths(counts_B, tokens_BK, "caption")
        x_BKD, state = self._decode(tokens_BK, state, counts_B)
        return self.head(x_BKD), state

    def select(self, state: CaptionState, rows_B: Tensor) -> CaptionState:
        """These rows, in this order."""
        picture = None if state.picture is None else state.picture.select(rows_B)
        return CaptionState(select_hidden(state.hidden, rows_B), picture)

    def _decode(self, tokens_BT: Tensor, state: CaptionState, counts_B: Tensor | None) -> tuple[Tensor, CaptionState]:
        top, hidden = self.decoder(self.dropout(self.embedding(tokens_BT)), state.hidden, counts_B)
        if self.attention is not None and self.combine is not None and state.picture is not None:
            top = self.combine(torch.cat([top, self.attention(top, state.picture)], -1)).tanh()
        return self.dropout(top), CaptionState(hidden, state.picture)

    @property
    def grid(self) -> Grid:
        """Rows and columns of the map's positions that attention is over; one of each without attention."""
        side = 1 if self.places is None else math.isqrt(len(self.places))
        return side, side

    @property
    def patch_positions(self) -> None:
        """None: the position vectors are part of attention's keys and values, no block has them as input."""
        return None

    title = "ConvNet with a recurrent decoder"
    reads = frozenset({"images", "tokens", "lengths"})

    def run(self, inputs: ModelInputs) -> ModelOutputs:
        return ModelOutputs(tokens=self(inputs.need("images"), inputs.need("tokens"), inputs.lengths))
