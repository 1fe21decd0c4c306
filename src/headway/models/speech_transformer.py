"""A transformer that writes down what is said in a sound, token by token (Radford et al. 2023, section 2.2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from headway.config import positive
from headway.models.encoder_decoder import DecoderState
from headway.models.inputs import ModelInputs, ModelOutputs, TextSizes
from headway.models.speech_encoder import Objective, SpeechEncoder, check_speech_sizes, encoder_stack, moments
from headway.models.stepper import EncoderInput, frames_of
from headway.models.text_decoder import TextDecoder, decoder_stack
from headway.nn.feedforward import Activation
from headway.nn.memory import Memory
from headway.nn.norms import FeatureNorm, LayerNorm
from headway.nn.positions import CausalPosition, Sinusoidal


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeechTransformerConfig:
    """Sizes and parts of a transcriber with a decoder; both stacks are pre-norm. The sizes are Whisper's tiny ones."""

    objective: ClassVar[Objective] = "next-token"

    vocab: int  # tokens in the vocabulary
    bands: int = 80  # of a frame; task.sound.bands is the same
    strides: tuple[int, ...] = (1, 2)  # of the convolutions over frames, which shorten a sound by their product
    context: int = 1500  # for learned positions only
    width: int = 384  # features of a token's vector, D
    encoder_layers: int = 4  # blocks in the encoder
    decoder_layers: int = 4  # blocks in the decoder
    heads: int = 6  # attention heads; they divide the width
    inner: int = 1536  # features inside the feed-forward network, F
    position: CausalPosition | None = Sinusoidal()  # of moments and of tokens; none: no positions
    norm: FeatureNorm = LayerNorm()  # the normalisation, with its settings
    activation: Activation = "gelu"  # of the feed-forward network
    dropout: float = 0.0  # share of features put to 0 in training, at least 0 and below 1
    kernel: str = "auto"  # attention kernel: auto, or a name that ops.attend knows

    def __post_init__(self) -> None:
        positive("vocab", self.vocab)
        positive("decoder_layers", self.decoder_layers)
        check_speech_sizes(self)
        _ = encoder_stack(self), decoder_stack(self)  # sizes that do not fit fail here

    def build(self) -> SpeechTransformer:
        return SpeechTransformer(self)

    def moments(self, frames: int) -> int:
        """The number of vectors that the encoder makes of this number of frames."""
        return moments(self, frames)

    @property
    def text(self) -> TextSizes:
        return TextSizes(vocab=self.vocab, context=self.context)


class SpeechTransformer(TextDecoder):
    """Frames of a sound and the tokens so far -> logits for each next token."""

    writes = "transcript"

    def __init__(self, config: SpeechTransformerConfig) -> None:
        super().__init__()
        self.encoder = SpeechEncoder(config)
        self.build_decoder(config)

    def encode(self, frames_BSM: Tensor, lengths_B: Tensor | None) -> Memory:
        """Frames (B, S, bands) -> keys and values of the moments for every decoder layer."""
        sound = self.encoder(frames_BSM, lengths_B)
        return self.decoder.project_memory(sound.vectors, sound.lengths)

    def forward(
        self,
        frames_BSM: Tensor,
        tokens_BT: Tensor,
        frame_lengths_B: Tensor | None = None,
        lengths_B: Tensor | None = None,
    ) -> Tensor:
        """Frames (B, S, bands), tokens so far (B, T) -> logits (B, T, V); both may be padded on the right."""
        return self.read(self.features(frames_BSM, tokens_BT, frame_lengths_B, lengths_B))

    def features(
        self,
        frames_BSM: Tensor,
        tokens_BT: Tensor,
        frame_lengths_B: Tensor | None = None,
        lengths_B: Tensor | None = None,
    ) -> Tensor:
        """Frames and tokens so far (B, T) -> (B, T, D), what the output layer reads."""
        return self.decode(tokens_BT, lengths_B, self.encode(frames_BSM, frame_lengths_B))

    @torch.no_grad()
    def start(self, source: EncoderInput | None = None, *, capacity: int = 64) -> DecoderState:
        """Encode the sounds; the transcript is empty."""
        return DecoderState(self.decoder.empty_cache(capacity), self.encode(*frames_of(source)))

    title = "transformer from sound to text"
    reads = frozenset({"frames", "tokens", "frame_lengths", "lengths"})

    def run(self, inputs: ModelInputs) -> ModelOutputs:
        frames, tokens = inputs.need("frames"), inputs.need("tokens")
        return ModelOutputs(tokens=self(frames, tokens, inputs.frame_lengths, inputs.lengths))
