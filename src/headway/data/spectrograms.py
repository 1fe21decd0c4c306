"""Sounds as images: spectrograms of one channel, with frequencies as rows and time as columns."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from headway.config import positive
from headway.data.image_decoding import EncodedImage, Pixels
from headway.data.wav import Wave, decode_wav
from headway.errors import ConfigError
from headway.limits import expect_within

ENDINGS = (".wav",)
RANGE = 80.0  # dynamic range in decibels below the loudest value
RULE = "sound 1"  # part of cache keys; change it when the spectrogram changes


@dataclass(frozen=True, slots=True, kw_only=True)
class Spectrogram:
    """Settings of the spectrogram: power by time and frequency, in decibels relative to the maximum.

    Frequency bands are spaced logarithmically (the mel scale is so only above 1 kHz, and cannot resolve low notes).
    """

    rate: int = 16_000  # samples per second, to which every file is resampled
    seconds: float = 1.0  # a longer sound is cropped to its middle, a shorter one padded with silence
    window: int = 2048  # samples of the FFT window
    lowest: float = 80.0  # Hz; the highest frequency is half the rate

    def __post_init__(self) -> None:
        positive("task.sound.rate", self.rate)
        positive("task.sound.window", self.window, least=16)
        if not 0 < self.lowest < self.rate / 2:
            raise ConfigError(f"task.sound.lowest={self.lowest}, allowed: above 0 and below {self.rate / 2:g}")
        if self.samples < 1:
            raise ConfigError(f"task.sound.seconds={self.seconds}, allowed: above 0, at least one sample")
        expect_within("samples", self.samples, "task.sound.seconds")

    @property
    def samples(self) -> int:
        """Samples of a spectrogram."""
        return round(self.rate * self.seconds)

    @property
    def rule(self) -> str:
        """The settings as text, for cache keys."""
        return f"{RULE} {self.rate} {self.seconds} {self.window} {self.lowest}"

    def decode(self, picture: EncodedImage, size: int) -> Pixels:
        """A WAV file as (1, size, size). Raises DataError naming the file and the problem."""
        assert isinstance(picture.content, bytes)
        wave = fit_length(decode_wav(picture.content, picture.where, self.rate, most=self.samples), self.samples)
        pixels: Pixels = self.pictures(wave[None], size)[0]
        return pixels

    def pictures(self, waves: Wave, size: int) -> Pixels:
        """Sounds (N, T) -> (N, 1, size, size): low frequencies at the bottom, 255 for the maximum."""
        hop = self.samples / size
        moments = torch.from_numpy(np.arange(size) * hop).long()
        padded = F.pad(torch.from_numpy(waves), (self.window // 2, self.window))
        frames = padded.unfold(1, self.window, 1)[:, moments]  # evenly spaced in time at any rate
        power = torch.fft.rfft(frames * torch.hann_window(self.window)).abs().square()
        pitches = power @ _filters(self.rate, self.window, self.lowest, size)
        level = 10 * torch.log10(pitches.clamp(min=1e-10))
        level = level - level.amax((1, 2), keepdim=True)
        shown = (255 * (1 + level / RANGE)).clamp(0, 255).round().to(torch.uint8)
        pixels: Pixels = shown.mT.flip(1)[:, None].numpy()
        return pixels


def fit_length(wave: Wave, samples: int) -> Wave:
    """A sound cropped to its middle, or padded with silence (T,)."""
    start = max(len(wave) - samples, 0) // 2
    cut = wave[start : start + samples]
    return np.pad(cut, (0, samples - len(cut)))


@cache
def _filters(rate: int, window: int, lowest: float, count: int) -> Tensor:
    """Triangular filters over the FFT bins (bins, count), each at least two bins wide, normalised to sum 1."""
    bins = np.arange(window // 2 + 1) * rate / window
    edges = np.geomspace(lowest, rate / 2, count + 2)
    low, middle, high = edges[:-2], edges[1:-1], edges[2:]
    least = rate / window  # closer bands share bins
    rising = (bins[:, None] - middle) / np.maximum(middle - low, least)
    falling = (bins[:, None] - middle) / np.maximum(high - middle, least)
    weights = np.clip(1 + np.where(bins[:, None] < middle, rising, -falling), 0, None)
    return torch.from_numpy((weights / weights.sum(0)).astype(np.float32))
