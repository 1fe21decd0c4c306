"""Images for a model: training batches augmented on the device, normalisation, and files of a finished run's user."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from headway.config import positive
from headway.data.augment import Augmentation, Mixed, augmented, constants, draw
from headway.data.batching import Indices
from headway.data.files import read_bytes
from headway.data.image_decoding import EncodedImage, Pixels, decode_images
from headway.errors import ConfigError, shown
from headway.tasks.sharing import micro_batches_before

RESIDENT = 2 << 30  # bytes: training images up to this size are kept on the device, so that a step copies none
Colours = tuple[float, ...]  # a number each for red, green and blue


def check_colours(size: int, mean: Sequence[float], std: Sequence[float], channels: int = 3) -> None:
    """Raise ConfigError for a size below 1, or a mean or standard deviation that is not one number a channel."""
    positive("task.size", size)
    for name, values in (("mean", mean), ("std", std)):
        if len(values) != channels:
            count = "three numbers" if channels == 3 else "one number"
            raise ConfigError(f"task.{name}={shown(values)}, expected {count}")
    if min(std) <= 0:
        raise ConfigError(f"task.std={shown(std)}, allowed: above 0")


def one_image_size(model: object, changes: Mapping[str, object]) -> dict[str, object]:
    """The image size of the model, or of the task, where the user has set that of the other alone."""
    own = getattr(model, "image", None)
    if own is None or "task" in changes or "model" in changes:  # a convolutional model reads any size
        return {}
    if "task.size" in changes and "model.image" not in changes:
        return {"model.image": changes["task.size"]}
    if "model.image" in changes and "task.size" not in changes:
        return {"task.size": changes["model.image"]}
    return {}


class TrainingImages:
    """Training images as bytes (N, C, H, W), and the augmentation and normalisation of a batch of them."""

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
        # Compiled, hundreds of small operations become a few; the numbers stay the same.
        self._augmented = torch.compile(augmented, dynamic=False) if compiled else augmented
        self._streams: dict[str, torch.Generator] = {}
        self._begun = (-1, "")  # the step whose stream is in use, and the kind of its device

    def picked(self, rows: Indices) -> Tensor:
        """Indices of images (B,) where all images are on the device, else the images themselves (B, C, H, W)."""
        return torch.from_numpy(rows if self.small else self.pixels[rows])

    def prepared(self, given: Tensor, step: int) -> Mixed | Tensor:
        """A batch as `picked` gives it -> images as the model reads them: augmented if configured, normalised."""
        images = self._table(given.device)[given] if self.small else given
        known = constants(self.mean, self.std, given.device)
        if self.augment is None:
            return known.normalised(images)
        return self._augmented(self.augment, images, self._draws(len(images), given.device, step), known)

    def _table(self, device: torch.device) -> Tensor:
        """All training images on a device (N, C, H, W), copied there once."""
        if device not in self._tables:
            self._tables[device] = torch.from_numpy(np.array(self.pixels)).to(device)  # a memory map is read-only
        return self._tables[device]

    def stream(self, step: int, device: torch.device) -> torch.Generator:
        """The random stream of a step, at its beginning: seed and step decide it, resumed or not."""
        state = np.random.SeedSequence([self.seed, step]).generate_state(1, np.uint64)
        if device.type not in self._streams:
            self._streams[device.type] = torch.Generator(device)
        self._begun = (step, device.type)
        return self._streams[device.type].manual_seed(int(state[0]) >> 1)

    def _draws(self, count: int, device: torch.device, step: int) -> Tensor:
        """Random numbers for a batch: the next of the step's stream, in a new step the first that are this rank's."""
        if self._begun != (step, device.type):
            self.stream(step, device)
            for _ in range(micro_batches_before()):  # all have as many images
                draw(count, self._streams[device.type])
        return draw(count, self._streams[device.type])


def normalised(images: Pixels, mean: Colours, std: Colours, device: torch.device, dtype: torch.dtype) -> Tensor:
    """Bytes (B, C, H, W) -> the input of a model (B, C, H, W)."""
    return constants(mean, std, device).normalised(torch.from_numpy(np.array(images)).to(device)).to(dtype)


def read_files(
    files: Iterable[str | Path], size: int, decode: Callable[[EncodedImage, int], Pixels] | None = None
) -> list[Pixels]:
    """Each file decoded once, as (C, size, size). Raises DataError naming a file that cannot be read.

    `decode` is for other files than images, as sounds.
    """
    return decode_images((EncodedImage(str(path), 0, read_bytes(Path(path))) for path in files), size, decode)


def model_dtype(model: nn.Module) -> torch.dtype:
    """What a model computes in: the type of its first floating-point parameter."""
    return next((p.dtype for p in model.parameters() if p.is_floating_point()), torch.float32)
