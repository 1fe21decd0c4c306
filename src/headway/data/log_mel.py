"""Log-mel spectrograms: a sound as frames of band levels, by the formula of Whisper (Radford et al. 2023, section 2.2).

A frame is a Hann window of samples around every `hop`-th one, the sound mirrored at its ends. Its power spectrum
|FFT|² goes through triangular filters, evenly spaced on the mel scale of Slaney (1998): linear up to 1 kHz,
m = 3 f / 200, logarithmic above, m = 15 + 27 ln(f / 1000) / ln 6.4; each filter has area 1. The level of a band is
x = log10 max(power, 1e-10), at least the loudest of the sound less 8 (80 decibels), and becomes (x + 4) / 4.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headway.config import positive
from headway.data.wav import Wave, read_wav
from headway.errors import ConfigError, DataError

Frames = NDArray[np.float32]
MOST_WINDOW, MOST_BANDS = 32_768, 512  # what a frame may have at most: the filters are a matrix of both
FLOOR, RANGE = 1e-10, 8.0  # the least power; tenfold steps of power below the loudest that are kept
BEND, LINEAR, TENFOLD = 1000.0, 200 / 3, np.log(6.4) / 27  # Hz up to which mel is linear, Hz a mel there, ln f a mel
RULE = "log-mel 1"  # part of cache keys; change it when the frames change


@dataclass(frozen=True, slots=True, kw_only=True)
class LogMel:
    """Settings of the frames; the defaults are Whisper's: 25 ms every 10 ms, in 80 bands."""

    rate: int = 16_000  # samples per second, to which every file is resampled
    window: int = 400  # samples of a frame, and of its FFT
    hop: int = 160  # samples from one frame to the next
    bands: int = 80  # mel bands of a frame, from 0 Hz to half the rate

    def __post_init__(self) -> None:
        for name, least in (("rate", 1), ("window", 16), ("hop", 1), ("bands", 1)):
            positive(f"task.sound.{name}", getattr(self, name), least=least)
        for name, most in (("window", MOST_WINDOW), ("bands", MOST_BANDS)):
            if getattr(self, name) > most:
                raise ConfigError(f"task.sound.{name}={getattr(self, name)}, allowed: at most {most:,}")
        if self.hop > self.window:
            raise ConfigError(
                f"task.sound.hop={self.hop}, allowed: at most the window, {self.window}: samples between would be lost"
            )
        if not mel_filters(self.rate, self.window, self.bands).any(0).all():
            raise ConfigError(
                f"task.sound.bands={self.bands}: a window of {self.window} samples has too few frequencies, some bands "
                "would be empty; allowed: fewer bands, or a longer window"
            )

    @property
    def rule(self) -> str:
        """The settings as text, for cache keys."""
        return f"{RULE} {self.rate} {self.window} {self.hop} {self.bands}"

    @property
    def frames_per_second(self) -> float:
        """Frames of a second of sound."""
        return self.rate / self.hop

    def read(self, path: Path) -> Frames:
        """The frames (T, bands) of a WAV file. Raises DataError naming the file and the problem."""
        return self.frames(read_wav(path, self.rate), str(path))

    def frames(self, wave: Wave, where: str) -> Frames:
        """Samples (N,) at the rate -> frames (N / hop, bands). Raises DataError for a sound shorter than a window."""
        if len(wave) < self.window:
            got = f"{len(wave):,} samples at {self.rate:,} a second ({len(wave) / self.rate:.3f} s)"
            raise DataError(f"{where}: {got}, expected at least a window of {self.window:,}")
        half = self.window // 2
        padded = np.pad(wave.astype(np.float64), half, mode="reflect")
        windows = np.lib.stride_tricks.sliding_window_view(padded, self.window)[:: self.hop][: len(wave) // self.hop]
        window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(self.window) / self.window)
        power = np.abs(np.fft.rfft(windows * window)) ** 2
        level = np.log10(np.maximum(power @ mel_filters(self.rate, self.window, self.bands), FLOOR))
        level = np.maximum(level, level.max() - RANGE)
        frames: Frames = ((level + 4) / 4).astype(np.float32)
        return frames


@cache
def mel_filters(rate: int, window: int, bands: int) -> NDArray[np.float64]:
    """The triangular filters over the FFT bins (bins, bands), each of area 1 over its frequencies in Hz."""
    bins = np.arange(window // 2 + 1) * rate / window
    edges = from_mel(np.linspace(0.0, float(to_mel(np.asarray(rate / 2))), bands + 2))
    low, middle, high = edges[:-2], edges[1:-1], edges[2:]
    rising, falling = (bins[:, None] - low) / (middle - low), (high - bins[:, None]) / (high - middle)
    weights: NDArray[np.float64] = np.maximum(np.minimum(rising, falling), 0.0) * 2 / (high - low)
    return weights


def to_mel(hertz: NDArray[Any]) -> NDArray[np.float64]:
    """Frequencies on Slaney's mel scale."""
    above = BEND / LINEAR + np.log(np.maximum(hertz, BEND) / BEND) / TENFOLD
    return np.where(hertz < BEND, hertz / LINEAR, above)


def from_mel(mel: NDArray[Any]) -> NDArray[np.float64]:
    """The frequencies of values on Slaney's mel scale."""
    bend = BEND / LINEAR
    return np.where(mel < bend, mel * LINEAR, BEND * np.exp(TENFOLD * (np.maximum(mel, bend) - bend)))
