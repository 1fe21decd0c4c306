"""Training images on the device: picked by number where they all fit there, and augmented."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from headway.config import positive
from headway.data.augment import Augmentation, Mixed, augmented, constants, draw
from headway.data.batching import Indices
from headway.data.image_decoding import Pixels
from headway.errors import ConfigError

RESIDENT = 2 << 30  # bytes: training images up to this size live on the device, so that a step copies none
Colours = tuple[float, ...]  # a number each for red, green and blue


def check_colours(size: int, mean: Sequence[float], std: Sequence[float], channels: int = 3) -> None:
    """Raise ConfigError for a size below 1, or what is no mean and deviation of so many colours."""
    positive("task.size", size)
    for name, values in (("mean", mean), ("std", std)):
        if len(values) != channels:
            count = "three numbers" if channels == 3 else "one number"
            raise ConfigError(f"task.{name}={values}, expected {count}")
    if min(std) <= 0:
        raise ConfigError(f"task.std={std}, allowed: above 0")


class TrainingImages:
    """Bytes (N, 3, H, W), and what is done to a batch of them before a model sees it."""

    def __init__(
        self,
        pixels: Pixels,
        augment: Augmentation | None,
        mean: Colours,
        std: Colours,
        *,
        seed: int,
        compiled: bool = False,
    ) -> None:
        self.pixels, self.augment, self.mean, self.std, self.seed = pixels, augment, mean, std, seed
        self.small = pixels.nbytes <= RESIDENT
        self._tables: dict[torch.device, Tensor] = {}
        # Hundreds of small operations become a few; the numbers stay the same.
        self._augmented = torch.compile(augmented, dynamic=False) if compiled else augmented
        self._streams: dict[str, torch.Generator] = {}
        self._begun = (-1, "")  # the step whose stream is in use, and the kind of its device

    def picked(self, rows: Indices) -> Tensor:
        """Numbers of images (B,) where all images are on the device, else the images themselves (B, 3, H, W)."""
        return torch.from_numpy(rows if self.small else self.pixels[rows])

    def prepared(self, given: Tensor, step: int) -> Mixed | Tensor:
        """What was picked, as the model reads it: with an augmentation as it mixed them, else normalised alone."""
        images = self._table(given.device)[given] if self.small else given
        known = constants(self.mean, self.std, given.device)
        if self.augment is None:
            return known.normalised(images)
        return self._augmented(self.augment, images, self._draws(len(images), given.device, step), known)

    def _table(self, device: torch.device) -> Tensor:
        """All training images on a device (N, 3, H, W), put there once."""
        if device not in self._tables:
            self._tables[device] = torch.from_numpy(np.array(self.pixels)).to(device)  # a map cannot be written
        return self._tables[device]

    def stream(self, step: int, device: torch.device) -> torch.Generator:
        """What the batches of a step draw from, put to its beginning: seed and step decide it, resumed or not."""
        state = np.random.SeedSequence([self.seed, step]).generate_state(1, np.uint64)
        if device.type not in self._streams:
            self._streams[device.type] = torch.Generator(device)
        self._begun = (step, device.type)
        return self._streams[device.type].manual_seed(int(state[0]) >> 1)

    def _draws(self, count: int, device: torch.device, step: int) -> Tensor:
        """Random numbers for a batch: the next of the step's stream, its first where the step is new."""
        begun = self._begun == (step, device.type)
        return draw(count, self._streams[device.type] if begun else self.stream(step, device))


def normalised(images: Pixels, mean: Colours, std: Colours, device: torch.device, dtype: torch.dtype) -> Tensor:
    """Bytes (B, 3, H, W) as a finished model reads them."""
    return constants(mean, std, device).normalised(torch.from_numpy(np.array(images)).to(device)).to(dtype)
