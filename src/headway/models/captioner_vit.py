"""A transformer that captions an image: its decoder attends over the patches of a vision transformer."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from headway.config import positive
from headway.models.backbone import Backbone
from headway.models.encoder_decoder import DecoderState, last_cross_attention
from headway.models.inputs import Model, ModelInputs, ModelOutputs, TextSizes
from headway.models.stepper import EncoderInput, SourceAttention, images_of
from headway.models.vit import Vit, VitConfig
from headway.nn.attention import AttentionConfig
from headway.nn.block import BlockConfig
from headway.nn.embedding import Head, TokenEmbedding, TokenEmbeddingConfig, check_lengths
from headway.nn.feedforward import Activation, FeedForwardConfig
from headway.nn.linear import xavier_init
from headway.nn.memory import Memory
from headway.nn.norms import FeatureNorm, LayerNorm
from headway.nn.patches import Grid, Patches, PatchKind
from headway.nn.positions import CausalPosition, Sinusoidal
from headway.nn.stack import Stack, StackConfig
from headway.ops import Causal


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptionerVitConfig:
    """Sizes and parts of a captioner whose encoder is a vision transformer; both stacks are pre-norm."""

    vocab: int  # tokens in the vocabulary
    context: int = 64  # for learned positions only
    image: int | tuple[int, int] = 224  # pixels a side, or height and width
    channels: int = 3  # of an image: 3 for colour, 1 for grey and for sound
    patch: int = 16  # pixels a side
    patches: PatchKind = Patches()  # how an image becomes tokens
    width: int = 256  # features of a token's vector, D
    encoder_layers: int = 4  # blocks in the encoder
    decoder_layers: int = 4  # blocks in the decoder
    heads: int = 4  # attention heads; they divide the width
    inner: int = 1024  # features inside the feed-forward network, F
    position: CausalPosition | None = Sinusoidal()  # of words; patches have learned ones
    norm: FeatureNorm = LayerNorm()  # the normalisation, with its settings
    activation: Activation = "gelu"  # of the feed-forward network
    dropout: float = 0.1  # share of features put to 0 in training, at least 0 and below 1
    kernel: str = "auto"  # attention kernel: auto, or a name that ops.attend knows

    def __post_init__(self) -> None:
        positive("vocab", self.vocab)
        positive("decoder_layers", self.decoder_layers)
        _ = self.vision  # sizes that do not fit fail here

    @property
    def vision(self) -> VitConfig:
        """The encoder, without a class token."""
        return VitConfig(
            classes=1,
            image=self.image,
            channels=self.channels,
            patch=self.patch,
            patches=self.patches,
            width=self.width,
            layers=self.encoder_layers,
            heads=self.heads,
            inner=self.inner,
            pool="mean",
            norm=self.norm,
            activation=self.activation,
            dropout=self.dropout,
            kernel=self.kernel,
        )

    @property
    def decoder(self) -> StackConfig:
        """The decoder's stack: tokens attend to earlier ones and to all patches."""
        block = BlockConfig(
            attention=AttentionConfig(width=self.width, heads=self.heads, kernel=self.kernel),
            feedforward=FeedForwardConfig(inner=self.inner, activation=self.activation, dropout=self.dropout),
            norm=self.norm,
            place="pre",
            dropout=self.dropout,
            cross=True,
        )
        return StackConfig(
            layers=self.decoder_layers,
            block=block,
            context=self.context,
            position=self.position,
            causal=True,
            dropout=self.dropout,
        )

    def build(self) -> CaptionerVit:
        return CaptionerVit(self)

    @property
    def backbone(self) -> Backbone:
        """The encoder."""
        return Backbone(config=self.vision, prefix="encoder.")

    def with_backbone(self, vision: VitConfig) -> CaptionerVitConfig:
        """This captioner with another encoder, and a decoder of its sizes. Raises ConfigError where it does not fit."""
        made = replace(
            self,
            image=vision.image,
            channels=vision.channels,
            patch=vision.patch,
            patches=vision.patches,
            width=vision.width,
            encoder_layers=vision.layers,
            heads=vision.heads,
            inner=vision.inner,
            norm=vision.norm,
            activation=vision.activation,
        )
        made.vision.expect_like(vision, "a captioner")
        return made

    @property
    def text(self) -> TextSizes:
        return TextSizes(vocab=self.vocab, context=self.context)


class CaptionerVit(Model):
    """Images and the words so far -> logits for each next word."""

    def __init__(self, config: CaptionerVitConfig) -> None:
        super().__init__()
        self.vocab, width = config.vocab, config.width
        self.encoder = Vit(config.vision)
        del self.encoder.head  # there are no classes
        self.embedding = TokenEmbedding(TokenEmbeddingConfig(vocab=config.vocab, width=width, scale=width**0.5))
        self.decoder = Stack(config.decoder)
        self.head = Head(width, config.vocab, tied=True, bias=False)
        xavier_init(self.decoder)
        nn.init.normal_(self.embedding.weight, std=width**-0.5)

    def encode(self, images: Tensor) -> Memory:
        """(B, C, height, width) -> keys and values of the patches for every decoder layer."""
        return self.decoder.project_memory(self.encoder.features(images), None)

    def forward(self, images: Tensor, tokens_BT: Tensor, lengths_B: Tensor | None = None) -> Tensor:
        """Images (B, C, height, width), words so far (B, T) -> logits (B, T, V); words may be padded on the right."""
        return self.read(self.features(images, tokens_BT, lengths_B))

    def read(self, hidden_BTD: Tensor) -> Tensor:
        """The decoder's output (B, T, D) -> logits (B, T, V)."""
        logits: Tensor = self.head(hidden_BTD, self.embedding.weight)
        return logits

    def features(self, images: Tensor, tokens_BT: Tensor, lengths_B: Tensor | None = None) -> Tensor:
        """Images and words so far (B, T) -> (B, T, D), what the output layer reads."""
        check_lengths(lengths_B, tokens_BT, "caption")
        x_BTD: Tensor = self.decoder(self.embedding(tokens_BT), mask=Causal(), memory=self.encode(images))
        return x_BTD

    def output(self) -> tuple[Tensor, Tensor | None]:
        """The output layer's matrix (V, D) and bias."""
        return self.head.matrix(self.embedding.weight), self.head.bias

    def source_attention(self) -> SourceAttention | None:
        """The last decoder layer's cross-attention, weights (B, H, T, patches); None without a layer."""
        return last_cross_attention(self.decoder)

    @torch.no_grad()
    def start(self, source: EncoderInput | None = None, *, capacity: int = 64) -> DecoderState:
        """Encode the images; the caption is empty."""
        return DecoderState(self.decoder.empty_cache(capacity), self.encode(images_of(source)))

    @torch.no_grad()
    def extend(
        self, tokens_BK: Tensor, state: DecoderState, counts_B: Tensor | None = None
    ) -> tuple[Tensor, DecoderState]:
        """(B, K) -> logits (B, K, V) and the state after them."""
        check_lengths(counts_B, tokens_BK, "caption")
        count = tokens_BK.shape[1]
        cache = state.cache.ready(count, counts_B)
        x = self.decoder(self.embedding(tokens_BK), mask=Causal(offset=cache.length), cache=cache, memory=state.memory)
        return self.head(x, self.embedding.weight), replace(state, cache=cache.advanced(count, counts_B))

    def select(self, state: DecoderState, rows_B: Tensor) -> DecoderState:
        """These rows, in this order."""
        return DecoderState(state.cache.select(rows_B), state.memory.select(rows_B))

    @property
    def grid(self) -> Grid:
        """Rows and columns of patches."""
        return self.encoder.grid

    @property
    def patch_positions(self) -> Tensor:
        """The learned positions of the patches (T, D)."""
        return self.encoder.positions

    reads = frozenset({"images", "tokens", "lengths"})

    def run(self, inputs: ModelInputs) -> ModelOutputs:
        return ModelOutputs(tokens=self(inputs.need("images"), inputs.need("tokens"), inputs.lengths))
