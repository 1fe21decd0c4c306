"""The encoder of sounds: convolutions over the frames of a spectrogram, then a transformer (Radford et al. 2023)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

import torch
from torch import Tensor, nn

from headway.config import positive
from headway.errors import ConfigError, DataError, ShapeError
from headway.models.pre_norm import PreNormSizes, pre_norm_stack
from headway.nn.embedding import check_lengths
from headway.nn.frame_convolutions import FrameConvolutions, shortened
from headway.nn.linear import xavier_init
from headway.nn.stack import Stack, StackConfig
from headway.ops import Lengths

Objective = Literal["next-token", "ctc"]  # what a model of speech is trained by


class SpeechSizes(PreNormSizes, Protocol):
    """The fields of a config that its encoder is made of."""

    @property
    def bands(self) -> int: ...
    @property
    def strides(self) -> tuple[int, ...]: ...
    @property
    def encoder_layers(self) -> int: ...


def check_speech_sizes(config: SpeechSizes) -> None:
    """Raise ConfigError for sizes that no encoder can have."""
    positive("bands", config.bands)
    positive("encoder_layers", config.encoder_layers, least=0)
    if not config.strides:
        raise ConfigError("strides=(), allowed: one or more, one for each convolution")
    for stride in config.strides:
        positive("strides", stride)


def encoder_stack(config: SpeechSizes) -> StackConfig:
    """A pre-norm stack in which every moment of a sound attends to all."""
    return pre_norm_stack(config, config.encoder_layers, decoder=False)


def moments(config: SpeechSizes, frames: int) -> int:
    """The number of vectors that the encoder makes of this number of frames."""
    return int(shortened(torch.tensor(frames), config.strides))


@dataclass(frozen=True, slots=True)
class EncodedSound:
    """The vectors of the moments of sounds (B, T, D), and how many of each are real (B,); None: all."""

    vectors: Tensor
    lengths: Tensor | None


class SpeechEncoder(nn.Module):
    """Frames (B, S, bands) -> a vector for every moment, whose length is the product of the strides."""

    def __init__(self, config: SpeechSizes) -> None:
        super().__init__()
        self.bands = config.bands
        self.convolutions = FrameConvolutions(config.bands, config.width, config.strides)
        self.stack = Stack(encoder_stack(config))
        xavier_init(self.stack)

    def forward(self, frames_BSM: Tensor, lengths_B: Tensor | None) -> EncodedSound:
        """Read frames (B, S, bands), padded on the right. Raises ShapeError or DataError for another shape."""
        if frames_BSM.ndim != 3:
            raise ShapeError(f"frames have shape {tuple(frames_BSM.shape)}, expected (B, S, bands)")
        if frames_BSM.shape[-1] != self.bands:
            raise DataError(f"frames have {frames_BSM.shape[-1]} bands, this model reads {self.bands}")
        check_lengths(lengths_B, frames_BSM[..., 0], "sound")
        x_BTD, lengths_B = self.convolutions(frames_BSM, lengths_B)
        mask = None if lengths_B is None else Lengths(lengths_B)
        return EncodedSound(self.stack(x_BTD, mask=mask, lengths_B=lengths_B), lengths_B)
