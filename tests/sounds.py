"""WAV files for tests."""

from __future__ import annotations

import wave
from pathlib import Path

import numpy as np
from numpy.typing import NDArray


def write_wav(path: Path, samples: NDArray[np.float32], rate: int) -> None:
    """Samples (T,) from -1 to 1 as a mono file of 16 bits."""
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes((np.clip(samples, -1, 1) * 32767).round().astype("<i2").tobytes())
