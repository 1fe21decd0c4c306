"""`spoken-digits`: generated sounds of one to six digits, like a voice of formants, with the words of each.

A digit is a sequence of segments, each with the frequencies of three formants and a hiss. Formants are sines whose
loudness pulses with the pitch of the voice, so that they have its harmonics around them; between segments everything
glides. A string has its own speed, pitch, vocal tract (a factor on all formants), loudness and background noise; its
digits vary in length and their formants a little, and the gaps between them differ.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headway.data.wav import Wave

Floats = NDArray[np.floating[Any]]
WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
LONGEST = 6  # digits of a string
SECONDS = (0.26, 0.42)  # of a digit, at the ordinary speed
GAPS = (0.04, 0.16)  # seconds between digits
EDGES = (0.03, 0.2)  # seconds of silence before the first digit and after the last
NOISE = 0.02  # maximum level of background noise


@dataclass(frozen=True, slots=True)
class Segment:
    """A part of a digit: its share of the length, how loud voice and hiss are, and their frequencies in Hz."""

    share: float
    voice: float
    formants: tuple[float, float, float]
    hiss: float = 0.0
    centre: float = 3000.0  # of the hiss


# Vowels are at about the mean formants of Peterson and Barney (1952, table II); the consonants are caricatures.
EE, IH, EH, AH = (270, 2290, 3010), (390, 1990, 2550), (530, 1840, 2480), (640, 1190, 2390)
AA, AO, OO, OH = (730, 1090, 2440), (570, 840, 2410), (300, 870, 2240), (500, 900, 2300)
R, W, N, REST = (330, 1060, 1400), (290, 620, 2200), (250, 1400, 2300), (400, 1400, 2400)
DIGITS: tuple[tuple[Segment, ...], ...] = (
    (Segment(0.2, 0.3, IH, 0.5, 3300), Segment(0.25, 1, EE), Segment(0.2, 0.8, R), Segment(0.35, 1, OH)),
    (Segment(0.3, 0.7, W), Segment(0.4, 1, AH), Segment(0.3, 0.5, N)),
    (Segment(0.25, 0, REST, 0.9, 3500), Segment(0.75, 1, OO)),
    (Segment(0.25, 0, REST, 0.35, 2500), Segment(0.25, 0.8, R), Segment(0.5, 1, EE)),
    (Segment(0.25, 0, REST, 0.3, 1500), Segment(0.5, 1, AO), Segment(0.25, 0.8, R)),
    (Segment(0.2, 0, REST, 0.3, 1500), Segment(0.35, 1, AA), Segment(0.25, 1, IH), Segment(0.2, 0.3, W, 0.3, 1500)),
    (Segment(0.3, 0, REST, 0.8, 3600), Segment(0.3, 1, IH), Segment(0.15, 0, IH), Segment(0.25, 0, REST, 0.8, 3600)),
    (Segment(0.25, 0, REST, 0.8, 3600), Segment(0.25, 1, EH), Segment(0.2, 0.4, W, 0.3, 1500), Segment(0.3, 0.5, N)),
    (Segment(0.35, 1, EH), Segment(0.3, 1, EE), Segment(0.15, 0, EE), Segment(0.2, 0, REST, 0.9, 3500)),
    (Segment(0.25, 0.5, N), Segment(0.3, 1, AA), Segment(0.2, 1, EE), Segment(0.25, 0.5, N)),
)


@dataclass(frozen=True, slots=True)
class SpokenDigits:
    """Sounds from -1 to 1 of different lengths at a sample rate, and their words."""

    waves: list[Wave]
    texts: list[str]
    rate: int


def spoken_digits(count: int, *, seed: int, rate: int = 8000) -> SpokenDigits:
    """`count` random strings of one to six digits, a function of the seed."""
    random = np.random.default_rng([seed, 10])
    waves, texts = [], []
    for _ in range(count):
        digits = random.integers(0, len(WORDS), random.integers(1, LONGEST + 1))
        waves.append(_string(random, digits, rate))
        texts.append(" ".join(WORDS[digit] for digit in digits))
    return SpokenDigits(waves, texts, rate)


def _string(random: np.random.Generator, digits: NDArray[np.int64], rate: int) -> Wave:
    """Digits after each other, spoken by one voice."""
    pitch, tract, speed = random.uniform(90, 230), random.uniform(0.88, 1.14), random.uniform(0.85, 1.2)

    def silence(low: float, high: float) -> Floats:
        return np.zeros(round(rate * random.uniform(low, high) / speed))

    parts = [silence(*EDGES)]
    for digit in digits:
        samples = round(rate * random.uniform(*SECONDS) / speed)
        parts += [_digit(random, DIGITS[digit], samples, rate, pitch, tract), silence(*GAPS)]
    wave = np.concatenate([*parts, silence(*EDGES)])
    wave *= random.uniform(0.3, 0.9) / np.abs(wave).max()
    wave += random.uniform(0, NOISE) * random.standard_normal(len(wave))
    made: Wave = np.clip(wave, -1, 1).astype(np.float32)
    return made


def _digit(
    random: np.random.Generator, segments: tuple[Segment, ...], samples: int, rate: int, pitch: float, tract: float
) -> Floats:
    """One digit (samples,) in a voice of this pitch in Hz, all formants times `tract`."""
    shares = np.asarray([each.share for each in segments]) * random.uniform(0.85, 1.15, len(segments))
    ends = np.cumsum(shares) / shares.sum()
    middles = (ends + np.concatenate([[0.0], ends[:-1]])) / 2
    place = (np.arange(samples) + 0.5) / samples

    def track(values: list[float]) -> Floats:
        """Values of the segments, reached in their middles."""
        return np.interp(place, middles, values)

    def phase(hertz: Floats) -> Floats:
        return 2 * np.pi * np.cumsum(hertz) / rate

    voice = np.zeros(samples)
    for n, loudness in enumerate((1.0, 0.6, 0.35)):
        hertz = track([each.formants[n] for each in segments]) * tract * random.uniform(0.97, 1.03)
        voice += loudness * np.sin(phase(hertz) + random.uniform(0, 2 * np.pi))
    turns = phase(pitch * (1 + random.uniform(-0.12, 0.12) * (place - 0.5)) * random.uniform(0.95, 1.05))
    voice *= ((1 + np.cos(turns)) / 2) ** 2 * track([each.voice for each in segments])
    noise = np.convolve(random.standard_normal(samples), np.hanning(9), mode="same")  # a band around 0 Hz, moved up
    hiss = noise * np.sin(phase(track([each.centre for each in segments]))) * track([each.hiss for each in segments])
    edge = np.minimum(1, np.minimum(place, 1 - place) * samples / (0.01 * rate))  # 10 ms up and down, without clicks
    return (voice + 0.5 * hiss) * edge
