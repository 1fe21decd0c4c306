"""A transformer that captions an image: its decoder attends over the patches of a vision transformer."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from headway.config import positive
from headway.models.backbone import Backbone
from headway.models.encoder_decoder import DecoderState
from headway.models.inputs import ModelInputs, ModelOutputs, TextSizes
from headway.models.stepper import EncoderInput, images_of
from headway.models.text_decoder import TextDecoder, decoder_stack
from headway.models.vit import Vit, VitConfig
from headway.nn.feedforward import Activation
from headway.nn.memory import Memory
from headway.nn.norms import FeatureNorm, LayerNorm
from headway.nn.patches import Grid, Patches, PatchKind
from headway.nn.positions import CausalPosition, Sinusoidal
from headway.nn.stack import StackConfig


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
        return decoder_stack(self)

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


class CaptionerVit(TextDecoder):
    """Images and the words so far -> logits for each next word."""

    writes = "caption"

    def __init__(self, config: CaptionerVitConfig) -> None:
        super().__init__()
        self.encoder = Vit(config.vision)
        del self.encoder.head  # there are no classes
        self.build_decoder(config)

    def encode(self, images: Tensor) -> Memory:
        """(B, C, height, width) -> keys and values of the patches for every decoder layer."""
        return self.decoder.project_memory(self.encoder.features(images), None)

    def forward(self, images: Tensor, tokens_BT: Tensor, lengths_B: Tensor | None = None) -> Tensor:
        """Images (B, C, height, width), words so far (B, T) -> logits (B, T, V); words may be padded on the right."""
        return self.read(self.features(images, tokens_BT, lengths_B))

    def features(self, images: Tensor, tokens_BT: Tensor, lengths_B: Tensor | None = None) -> Tensor:
        """Images and words so far (B, T) -> (B, T, D), what the output layer reads."""
        return self.decode(tokens_BT, lengths_B, self.encode(images))

    @torch.no_grad()
    def start(self, source: EncoderInput | None = None, *, capacity: int = 64) -> DecoderState:
        """Encode the images; the caption is empty."""
        return DecoderState(self.decoder.empty_cache(capacity), self.encode(images_of(source)))

    @property
    def grid(self) -> Grid:
        """Rows and columns of patches."""
        return self.encoder.grid

    @property
    def patch_positions(self) -> Tensor:
        """The learned positions of the patches (T, D)."""
        return self.encoder.positions

    title = "vision transformer with a decoder"
    reads = frozenset({"images", "tokens", "lengths"})

    def run(self, inputs: ModelInputs) -> ModelOutputs:
        return ModelOutputs(tokens=self(inputs.need("images"), inputs.need("tokens"), inputs.lengths))
