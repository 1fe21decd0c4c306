"""Augmentation of a batch of images on any device: bytes in, normalised floats out.

All randomness comes from a tensor of uniform numbers drawn beforehand, so that the result is determined by a seed and a
step, and nothing synchronises with the device or loops over images.
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

DRAWS = 19  # rows of random numbers, the first ones for AutoAugment
ERASED = (0.02, 0.4)  # range of the erased fraction of an image
TALL = (0.3, 1 / 0.3)  # range of height over width of the erased rectangle, uniform, so mostly above 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Augmentation:
    """Augmentations of training images, applied in this order; by default flip and crop."""

    flip: bool = True  # horizontally, with probability 1/2
    crop: int = 4  # pixels of black padding before a random crop of the original size
    policy: AutoAugment | None = None  # a learned policy of colour and geometry changes; none: no policy
    erase: float = 0.0  # probability of random erasing (Zhong et al. 2020), with the mean colour
    mix: float = 0.0  # probability per batch of CutMix (Yun et al. 2019) or Mixup (Zhang et al. 2018), λ uniform

    def __post_init__(self) -> None:
        positive("crop", self.crop, least=0)
        for name in ("erase", "mix"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise ConfigError(f"augment.{name}={getattr(self, name)}, allowed: 0 to 1")


@dataclass(frozen=True, slots=True)
class Mixed:
    """Images (B, 3, H, W), the index of the image mixed into each (B,), and the weight of its own label (B,)."""

    images: Tensor
    partner: Tensor
    share: Tensor


def draw(count: int, generator: torch.Generator) -> Tensor:
    """The random numbers for a batch of `count` images (DRAWS, B)."""
    return torch.rand(DRAWS, count, generator=generator, device=generator.device)


@dataclass(frozen=True, slots=True)
class Constants:
    """Per-device constants: scale and offset of each channel, and the tables of AutoAugment."""

    scale: Tensor
    offset: Tensor
    tables: Tables

    def normalised(self, images: Tensor) -> Tensor:
        """Levels from 0 to 255 (B, 3, H, W) -> floats, normalised by mean and standard deviation."""
        return images * self.scale + self.offset


@cache
def constants(mean: tuple[float, ...], std: tuple[float, ...], device: torch.device) -> Constants:
    """The constants of a device, cached, so that a step copies nothing to it."""
    centre, spread = (torch.tensor(each).view(1, -1, 1, 1) for each in (mean, std))
    return Constants((1 / (255 * spread)).to(device), (-centre / spread).to(device), policy_tables(device))


@torch.no_grad()
def augmented(config: Augmentation, images: Tensor, draws: Tensor, known: Constants) -> Mixed:
    """Bytes (B, 3, H, W) and random numbers (DRAWS, B) -> an augmented batch."""
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
    """Random crops of images (B, 3, H, W) padded with black, some flipped horizontally."""
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
    """The mask of erased pixels (B, 1, H, W); a rectangle larger than the image is clipped."""
    height, width = images.shape[2:]
    area, ratio = (low + (high - low) * draw for (low, high), draw in ((ERASED, draws[1]), (TALL, draws[2])))
    area = area * (height * width)
    tall, wide = (area * ratio).sqrt().clamp(max=height), (area / ratio).sqrt().clamp(max=width)
    inside = _box(images, tall, wide, (height - tall) * draws[3], (width - wide) * draws[4])
    return inside & (draws[0] < chance)[:, None, None, None]


def shares(images: Tensor, draws: Tensor, chance: float) -> Tensor:
    """The weight of each pixel's own image (B, 1, H, W): 1, λ (Mixup), or 0 inside a box (CutMix)."""
    height, width = images.shape[2:]
    mixes, cuts, kept = draws[0] < chance, draws[1] < 0.5, draws[2]
    side = (1 - kept).sqrt()
    tall, wide = side * height, side * width
    # The centre of the box is uniform in the image and the box is clipped at the edges, as in the paper.
    top, left = draws[3] * height - tall / 2, draws[4] * width - wide / 2
    box = _box(images[:1], tall[None], wide[None], top[None], left[None])
    own = torch.where(cuts, (~box).to(images.dtype), kept)
    return torch.where(mixes, own, 1.0).expand(len(images), 1, height, width)


def _box(images: Tensor, tall_B: Tensor, wide_B: Tensor, top_B: Tensor, left_B: Tensor) -> Tensor:
    """The mask of pixels whose centre is in a rectangle (B, 1, H, W)."""
    rows, columns = (torch.arange(side, device=images.device) + 0.5 for side in images.shape[2:])
    down = (rows >= top_B[:, None]) & (rows < (top_B + tall_B)[:, None])
    across = (columns >= left_B[:, None]) & (columns < (left_B + wide_B)[:, None])
    return (down[:, :, None] & across[:, None, :])[:, None]
