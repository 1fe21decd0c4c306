"""A transcriber by connectionist temporal classification (Graves et al. 2006): a token or a blank at every moment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor, nn

from headway.config import positive
from headway.models.inputs import Model, ModelInputs, ModelOutputs, TextSizes
from headway.models.speech_encoder import (
    EncodedSound,
    Objective,
    SpeechEncoder,
    check_speech_sizes,
    encoder_stack,
    moments,
)
from headway.nn.feedforward import Activation
from headway.nn.linear import xavier_init
from headway.nn.norms import FeatureNorm, LayerNorm
from headway.nn.positions import CausalPosition, Sinusoidal


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeechCtcConfig:
    """Sizes and parts of an encoder of sounds, pre-norm, with one linear layer above it."""

    objective: ClassVar[Objective] = "ctc"

    vocab: int  # tokens in the vocabulary; the blank is one more output, the last
    bands: int = 80  # of a frame; task.sound.bands is the same
    strides: tuple[int, ...] = (1, 2)  # of the convolutions over frames, which shorten a sound by their product
    context: int = 1500  # for learned positions only
    width: int = 384  # features of a moment's vector, D
    encoder_layers: int = 4  # blocks in the encoder
    heads: int = 6  # attention heads; they divide the width
    inner: int = 1536  # features inside the feed-forward network, F
    position: CausalPosition | None = Sinusoidal()  # of moments; none: no positions
    norm: FeatureNorm = LayerNorm()  # the normalisation, with its settings
    activation: Activation = "gelu"  # of the feed-forward network
    dropout: float = 0.0  # share of features put to 0 in training, at least 0 and below 1
    kernel: str = "auto"  # attention kernel: auto, or a name that ops.attend knows

    def __post_init__(self) -> None:
        positive("vocab", self.vocab)
        check_speech_sizes(self)
        _ = encoder_stack(self)  # sizes that do not fit fail here

    def build(self) -> SpeechCtc:
        return SpeechCtc(self)

    def moments(self, frames: int) -> int:
        """The number of outputs for this number of frames."""
        return moments(self, frames)

    @property
    def text(self) -> TextSizes:
        return TextSizes(vocab=self.vocab, context=self.context)


class SpeechCtc(Model):
    """Frames of a sound -> logits of the tokens and the blank at every moment."""

    def __init__(self, config: SpeechCtcConfig) -> None:
        super().__init__()
        self.vocab = config.vocab
        self.encoder = SpeechEncoder(config)
        self.head = nn.Linear(config.width, config.vocab + 1)
        xavier_init(self.head)

    @property
    def blank(self) -> int:
        """The index of the blank."""
        return self.vocab

    def encode(self, frames_BSM: Tensor, lengths_B: Tensor | None = None) -> EncodedSound:
        """Frames (B, S, bands) -> what the output layer reads, and how many moments of each sound are real."""
        sound: EncodedSound = self.encoder(frames_BSM, lengths_B)
        return sound

    def read(self, hidden_BTD: Tensor) -> Tensor:
        """The encoder's output (B, T, D) -> logits (B, T, V + 1)."""
        logits: Tensor = self.head(hidden_BTD)
        return logits

    def forward(self, frames_BSM: Tensor, lengths_B: Tensor | None = None) -> Tensor:
        """Frames (B, S, bands), padded on the right -> logits (B, T, V + 1)."""
        return self.read(self.encode(frames_BSM, lengths_B).vectors)

    title = "transformer encoder with CTC"
    reads = frozenset({"frames", "frame_lengths"})

    def run(self, inputs: ModelInputs) -> ModelOutputs:
        return ModelOutputs(alignment=self(inputs.need("frames"), inputs.frame_lengths))
