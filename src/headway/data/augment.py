"""Augmentation of a batch of images on any device: bytes in, normalised floats out, by random numbers drawn beforehand.

The only randomness is a tensor of uniform numbers from a generator of its own, so that a seed and a step decide
everything, and nothing here waits for a device or goes through images one by one.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import torch
import torch.nn.functional as F
from torch import Tensor

from headway.config import positive
from headway.data import autoaugment
from headway.data.autoaugment import AutoAugment, Tables, policy_tables
from headway.errors import ConfigError

DRAWS = 19  # rows of random numbers, of which AutoAugment has the first
ERASED = (0.02, 0.4)  # shares of an image that may be erased
TALL = (0.3, 1 / 0.3)  # height over width of what is erased: uniform between these, and so mostly above 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Augmentation:
    """What is done to training images, in this order; the defaults are flip and crop."""

    flip: bool = True  # left and right, half of the time
    crop: int = 4  # pixels of black put around, before the old size is cut out somewhere
    policy: AutoAugment | None = None  # a learned policy of colour and geometry changes; None: none
    erase: float = 0.0  # the chance that a rectangle is put to the mean colour
    mix: float = 0.0  # the chance that a batch is mixed with itself: half of the time CutMix, half Mixup, λ uniform

    def __post_init__(self) -> None:
        positive("crop", self.crop, least=0)
        for name in ("erase", "mix"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise ConfigError(f"augment.{name}={getattr(self, name)}, allowed: 0 to 1")


@dataclass(frozen=True, slots=True)
class Mixed:
    """Images (B, 3, H, W), which other image was mixed into each (B,), and the share that is its own (B,)."""

    images: Tensor
    partner: Tensor
    share: Tensor


def draw(count: int, generator: torch.Generator) -> Tensor:
    """The random numbers for a batch of so many images (DRAWS, B)."""
    return torch.rand(DRAWS, count, generator=generator, device=generator.device)


@dataclass(frozen=True, slots=True)
class Constants:
    """What is the same for all batches, on their device: scale and offset of each colour, and the policy's tables."""

    scale: Tensor
    offset: Tensor
    tables: Tables

    def normalised(self, images: Tensor) -> Tensor:
        """Levels from 0 to 255 (B, 3, H, W) as floats, less the mean and over the deviation of each colour."""
        return images * self.scale + self.offset


@cache
def constants(mean: tuple[float, ...], std: tuple[float, ...], device: torch.device) -> Constants:
    """Made once for a device: a step waits for no copy."""
    centre, spread = (torch.tensor(each).view(1, -1, 1, 1) for each in (mean, std))
    return Constants((1 / (255 * spread)).to(device), (-centre / spread).to(device), policy_tables(device))


@torch.no_grad()
def augmented(config: Augmentation, images: Tensor, draws: Tensor, known: Constants) -> Mixed:
    """Bytes (B, 3, H, W) as a batch to train on, by random numbers (DRAWS, B)."""
    with torch.autocast(images.device.type, enabled=False):  # levels must stay exact
        policy, rest = draws[: autoaugment.DRAWS], draws[autoaugment.DRAWS :]
        x = shifted(images, rest[0], rest[1:3], pad=config.crop, flip=config.flip)
        if config.policy is not None:
            x = config.policy(x, policy, known.tables)
        x = known.normalised(x)
        if config.erase:
            x = torch.where(erased(x, rest[3:8], config.erase), 0.0, x)
        own = torch.ones_like(x[:, :1])
        partner = rest[13].argsort()
        if config.mix:
            own = shares(x, rest[8:13, 0], config.mix)
            x = own * x + (1 - own) * x[partner]
        return Mixed(x, partner, own.mean((1, 2, 3)))


def shifted(images: Tensor, flips_B: Tensor, places_2B: Tensor, *, pad: int, flip: bool) -> Tensor:
    """Images (B, 3, H, W) cut anew out of themselves with a black border, some turned left to right."""
    height, width = images.shape[2:]
    down, right = (places_2B * (2 * pad + 1)).long().clamp(max=2 * pad)[:, :, None]
    rows, columns = (torch.arange(side, device=images.device) for side in (height, width))
    columns = columns.expand(len(images), -1)
    if flip:
        columns = torch.where((flips_B < 0.5)[:, None], width - 1 - columns, columns)
    padded = F.pad(images, (pad,) * 4)
    batch = torch.arange(len(images), device=images.device)[:, None, None]
    return padded[batch, :, (rows + down)[:, :, None], (columns + right)[:, None, :]].permute(0, 3, 1, 2)


def erased(images: Tensor, draws: Tensor, chance: float) -> Tensor:
    """Where images (B, 3, H, W) are erased, (B, 1, H, W); a rectangle too long for the image is cut to it."""
    height, width = images.shape[2:]
    area, ratio = (low + (high - low) * draw for (low, high), draw in ((ERASED, draws[1]), (TALL, draws[2])))
    area = area * (height * width)
    tall, wide = (area * ratio).sqrt().clamp(max=height), (area / ratio).sqrt().clamp(max=width)
    inside = _box(images, tall, wide, (height - tall) * draws[3], (width - wide) * draws[4])
    return inside & (draws[0] < chance)[:, None, None, None]


def shares(images: Tensor, draws: Tensor, chance: float) -> Tensor:
    """How much of each pixel stays an image's own (B, 1, H, W): all, λ of it (Mixup), or all but a box (CutMix)."""
    height, width = images.shape[2:]
    mixes, cuts, kept = draws[0] < chance, draws[1] < 0.5, draws[2]
    side = (1 - kept).sqrt()
    tall, wide = side * height, side * width
    # The box has its middle anywhere in the image and is cut at the edge, as the paper has it.
    top, left = draws[3] * height - tall / 2, draws[4] * width - wide / 2
    box = _box(images[:1], tall[None], wide[None], top[None], left[None])
    own = torch.where(cuts, (~box).to(images.dtype), kept)
    return torch.where(mixes, own, 1.0).expand(len(images), 1, height, width)


def _box(images: Tensor, tall_B: Tensor, wide_B: Tensor, top_B: Tensor, left_B: Tensor) -> Tensor:
    """Pixels with their centre in a rectangle (B, 1, H, W)."""
    rows, columns = (torch.arange(side, device=images.device) + 0.5 for side in images.shape[2:])
    down = (rows >= top_B[:, None]) & (rows < (top_B + tall_B)[:, None])
    across = (columns >= left_B[:, None]) & (columns < (left_B + wide_B)[:, None])
    return (down[:, :, None] & across[:, None, :])[:, None]
