"""`tones`: generated sounds in eight classes: notes, chords, glides, rhythms and two kinds of noise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headway.data.wav import Wave

Floats = NDArray[np.floating[Any]]
KINDS = ("note", "major", "minor", "rising", "falling", "rhythm", "white", "pink")
PARTIALS = 4  # of each note, each half as loud as the previous one
HISS = 0.02  # maximum level of background noise


@dataclass(frozen=True, slots=True)
class Tones:
    """Sounds (N, T) from -1 to 1 at a sample rate, and their class indices (N,)."""

    waves: Wave
    labels: NDArray[np.int64]
    rate: int


def tones(count: int, *, seed: int, rate: int = 16_000, seconds: float = 1.0) -> Tones:
    """`count` random sounds, a function of the seed."""
    random = np.random.default_rng([seed, 440])
    labels = random.integers(0, len(KINDS), count)
    time = np.arange(round(rate * seconds)) / rate
    waves = np.empty((count, len(time)))
    makers = {"note": (0,), "major": (0, 4, 7), "minor": (0, 3, 7)}
    for number, kind in enumerate(KINDS):
        rows = np.flatnonzero(labels == number)
        pitch = 110 * 2 ** (random.integers(0, 37, len(rows)) / 12)  # three octaves from A2
        if kind in makers:
            waves[rows] = sum(_note(random, pitch * 2 ** (step / 12), time) for step in makers[kind])
        elif kind in ("rising", "falling"):
            waves[rows] = _glide(random, pitch, time, up=kind == "rising")
        elif kind == "rhythm":
            waves[rows] = _rhythm(random, pitch, time)
        else:
            waves[rows] = _noise(random, len(rows), len(time), pink=kind == "pink")
    loudest = np.abs(waves).max(1, keepdims=True)
    waves *= random.uniform(0.3, 0.9, (count, 1)) / np.maximum(loudest, 1e-9)
    waves += random.uniform(0, HISS, (count, 1)) * random.standard_normal(waves.shape)
    return Tones(np.clip(waves, -1, 1).astype(np.float32), labels, rate)


def _note(random: np.random.Generator, pitch: Floats, time: Floats) -> Floats:
    """Notes like a struck string: decaying partials (N, T)."""
    fade = random.uniform(1, 5, (len(pitch), 1))
    sound = np.zeros((len(pitch), len(time)))
    for partial in range(1, PARTIALS + 1):
        phase = random.uniform(0, 2 * np.pi, (len(pitch), 1))
        sound += 0.5 ** (partial - 1) * np.sin(2 * np.pi * partial * pitch[:, None] * time + phase)
    faded: Floats = sound * np.exp(-fade * time)
    return faded


def _glide(random: np.random.Generator, pitch: Floats, time: Floats, *, up: bool) -> Floats:
    """Tones that glide by 1/3 to 1.5 octaves at a constant rate."""
    octaves = random.uniform(1 / 3, 1.5, (len(pitch), 1)) * (1 if up else -1) / time[-1]
    turns = pitch[:, None] * (2 ** (octaves * time) - 1) / (octaves * np.log(2))
    sound: Floats = np.sin(2 * np.pi * turns)
    return sound


def _rhythm(random: np.random.Generator, pitch: Floats, time: Floats) -> Floats:
    """Short clicks of one pitch, 4 to 12 per second."""
    beats = random.uniform(4, 12, (len(pitch), 1))
    since = (time * beats + random.uniform(0, 1, (len(pitch), 1))) % 1 / beats
    clicks: Floats = np.sin(2 * np.pi * 4 * pitch[:, None] * since) * np.exp(-60 * since)
    return clicks


def _noise(random: np.random.Generator, count: int, length: int, *, pink: bool) -> Floats:
    """White noise, or pink noise, whose power is inversely proportional to the frequency."""
    white = random.standard_normal((count, length))
    if not pink:
        return white
    spectrum = np.fft.rfft(white)
    return np.fft.irfft(spectrum / np.sqrt(np.maximum(np.arange(spectrum.shape[1]), 1)), length)
