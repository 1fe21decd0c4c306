"""What a classifier makes of image or sound files it has never seen."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import nn

from headway.data.files import read_bytes
from headway.data.image_decoding import EncodedImage, Pixels, decode_images
from headway.tasks.image_classification.training import EVALUATED, Classification, logits_of


@dataclass(frozen=True, slots=True)
class Prediction:
    """The likeliest classes of an image with their probabilities, best first, and the image as it was looked at."""

    image: str
    top: list[tuple[str, float]]
    pixels: Pixels  # (C, H, W)


@torch.no_grad()
def classify(
    model: nn.Module,
    device: torch.device,
    config: Classification,
    classes: tuple[str, ...],
    images: Iterable[str | Path],
    *,
    top: int,
) -> list[Prediction]:
    """The `top` likeliest classes of each file. Raises DataError naming a file that cannot be read."""
    files = [Path(image) for image in images]
    how = None if config.sound is None else config.sound.decode
    pixels = decode_images((EncodedImage(str(path), 0, read_bytes(path)) for path in files), config.size, how)
    made: list[Prediction] = []
    for at in range(0, len(files), EVALUATED):
        block = torch.from_numpy(np.stack(pixels[at : at + EVALUATED]))
        chances, which = logits_of(model, device, block, config).softmax(-1).topk(min(top, len(classes)))
        for row, (shares, numbers) in enumerate(zip(chances.tolist(), which.tolist(), strict=True), at):
            named = [(classes[number], share) for number, share in zip(numbers, shares, strict=True)]
            made.append(Prediction(str(files[row]), named, pixels[row]))
    return made
