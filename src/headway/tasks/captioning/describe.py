"""What a captioner says of image files it has never seen."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import nn

from headway.data.files import read_bytes
from headway.data.image_decoding import EncodedImage, Pixels, decode_images
from headway.tasks.captioning.training import CaptioningTraining


@dataclass(frozen=True, slots=True)
class Caption:
    """A sentence about an image with its log-probability, and the image as it was looked at."""

    image: str
    text: str
    log_probability: float
    pixels: Pixels  # (3, H, W)
    tokens: tuple[int, ...]


def describe(
    task: CaptioningTraining,
    model: nn.Module,
    device: torch.device,
    images: Iterable[str | Path],
    *,
    beam: int | None = None,
) -> list[Caption]:
    """A caption for each file. Raises DataError naming a file that cannot be read as an image."""
    files = [Path(image) for image in images]
    pixels = decode_images((EncodedImage(str(path), 0, read_bytes(path)) for path in files), task.config.size)
    if not files:
        return []
    found = task.search(model, device, np.stack(pixels), beam=beam)
    return [
        Caption(
            str(file), task.tokenizer.decode(lines[0].tokens), lines[0].log_probability, seen, tuple(lines[0].tokens)
        )
        for file, lines, seen in zip(files, found, pixels, strict=True)
    ]
