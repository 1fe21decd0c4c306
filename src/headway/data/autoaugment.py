"""AutoAugment's policy for CIFAR-10 (Cubuk et al. 2019) on a whole batch: each image gets its own two operations.

Operations match Pillow's to the pixel as far as floating point allows. All geometric operations are one gather with an
affine matrix per image, all level operations one table of 256 entries per image and channel, and the four enhancements
one blend. Images stay bytes in between, because on a GPU the time is that of memory traffic.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import torch
import torch.nn.functional as F
from torch import Tensor

from headway.data.histograms import LEVELS, histograms
from headway.errors import ConfigError

OPERATIONS = (
    "none", "shear-x", "shear-y", "translate-x", "translate-y", "rotate", "brightness", "contrast", "color",
    "sharpness", "posterize", "solarize", "invert", "autocontrast", "equalize",
)  # fmt: skip
CODES = {name: code for code, name in enumerate(OPERATIONS)}
MAGNITUDES = 10  # number of magnitudes
# The values of the smallest and largest magnitude: a fraction of the side, degrees, the enhancement factor minus 1, the
# bits kept, the threshold from which levels are inverted.
RANGES = {
    "shear-x": (0.0, 0.3),
    "shear-y": (0.0, 0.3),
    "translate-x": (0.0, 150 / 331),
    "translate-y": (0.0, 150 / 331),
    "rotate": (0.0, 30.0),
    "brightness": (0.0, 0.9),
    "contrast": (0.0, 0.9),
    "color": (0.0, 0.9),
    "sharpness": (0.0, 0.9),
    "posterize": (8.0, 4.0),
    "solarize": (256.0, 0.0),
}
UNSIGNED = ("posterize", "solarize")  # the sign of the others is random
# The paper's table for CIFAR-10 (Table 7): operation, probability, magnitude; twice per row.
POLICY = (
    ("invert", 0.1, 7, "contrast", 0.2, 6),
    ("rotate", 0.7, 2, "translate-x", 0.3, 9),
    ("sharpness", 0.8, 1, "sharpness", 0.9, 3),
    ("shear-y", 0.5, 8, "translate-y", 0.7, 9),
    ("autocontrast", 0.5, 8, "equalize", 0.9, 2),
    ("shear-y", 0.2, 7, "posterize", 0.3, 7),
    ("color", 0.4, 3, "brightness", 0.6, 7),
    ("sharpness", 0.3, 9, "brightness", 0.7, 9),
    ("equalize", 0.6, 5, "equalize", 0.5, 1),
    ("contrast", 0.6, 7, "sharpness", 0.6, 5),
    ("color", 0.7, 7, "translate-x", 0.5, 8),
    ("equalize", 0.3, 7, "autocontrast", 0.4, 8),
    ("translate-y", 0.4, 3, "sharpness", 0.2, 6),
    ("brightness", 0.9, 6, "color", 0.2, 8),
    ("solarize", 0.5, 2, "invert", 0.0, 3),
    ("equalize", 0.2, 0, "autocontrast", 0.6, 0),
    ("equalize", 0.2, 8, "equalize", 0.6, 4),
    ("color", 0.9, 9, "equalize", 0.6, 6),
    ("autocontrast", 0.8, 4, "solarize", 0.2, 8),
    ("brightness", 0.1, 3, "color", 0.7, 0),
    ("solarize", 0.4, 5, "autocontrast", 0.9, 3),
    ("translate-y", 0.9, 9, "translate-y", 0.7, 9),
    ("autocontrast", 0.9, 2, "solarize", 0.8, 3),
    ("equalize", 0.8, 8, "invert", 0.1, 3),
    ("translate-y", 0.7, 9, "autocontrast", 0.9, 1),
)
DRAWS = 5  # random numbers per image: the row, and for each operation whether it applies and its sign


Tables = tuple[Tensor, Tensor, Tensor, Tensor]


@dataclass(frozen=True, slots=True, kw_only=True)
class AutoAugment:
    """The policy found on CIFAR-10; pixels from outside the image are grey."""

    fill: float = 128.0  # grey value, 0 to 255, of what moves in from outside

    def __post_init__(self) -> None:
        if not 0.0 <= self.fill <= 255.0:
            raise ConfigError(f"augment.policy.fill={self.fill}, allowed: 0 to 255")

    def __call__(self, images: Tensor, draws: Tensor, tables: Tables) -> Tensor:
        """Bytes (B, 3, H, W) and random numbers (DRAWS, B) from 0 to 1 -> two operations applied to each image."""
        codes, chances, amounts, signed = tables
        row_B = (draws[0] * len(POLICY)).long().clamp(max=len(POLICY) - 1)
        for turn in range(2):
            chance_B = chances[row_B, turn]
            code_B = torch.where(draws[1 + turn] < chance_B, codes[row_B, turn], CODES["none"])
            back_B = (draws[3 + turn] < 0.5) & signed[row_B, turn]
            amount_B = torch.where(back_B, -amounts[row_B, turn], amounts[row_B, turn])
            images = operate(images, code_B, amount_B, fill=self.fill)
        return images


@cache
def policy_tables(device: torch.device) -> Tables:
    """The policy as tensors (25, 2): operation code, probability, amount, and whether its sign is random."""
    halves = [[(row[0], row[1], row[2]), (row[3], row[4], row[5])] for row in POLICY]
    codes = [[CODES[str(name)] for name, _, _ in pair] for pair in halves]
    chances = [[float(chance) for _, chance, _ in pair] for pair in halves]
    amounts = [[amount(str(name), int(level)) for name, _, level in pair] for pair in halves]
    signed = [[name in RANGES and name not in UNSIGNED for name, _, _ in pair] for pair in halves]
    return (
        torch.tensor(codes, device=device),
        torch.tensor(chances, device=device),
        torch.tensor(amounts, device=device),
        torch.tensor(signed, device=device),
    )


def amount(name: str, level: int) -> float:
    """The value of a magnitude for an operation."""
    low, high = RANGES.get(name, (0.0, 0.0))
    value = low + (high - low) * level / (MAGNITUDES - 1)
    return float(round(value)) if name == "posterize" else value


def operate(images: Tensor, code_B: Tensor, amount_B: Tensor, *, fill: float) -> Tensor:
    """One operation on each image, bytes (B, 3, H, W)."""
    return _mapped_levels(_enhanced(_geometric(images, code_B, amount_B, fill), code_B, amount_B), code_B, amount_B)


def _is(code_B: Tensor, *names: str) -> Tensor:
    """Which images get one of these operations (B,)."""
    found = code_B == CODES[names[0]]
    for name in names[1:]:
        found = found | (code_B == CODES[name])
    return found


def _geometric(images: Tensor, code_B: Tensor, amount_B: Tensor, fill: float) -> Tensor:
    """Shear, translation, and rotation about the centre, with nearest-neighbour sampling."""
    height, width = images.shape[2:]
    zero = torch.zeros_like(amount_B)
    angle_B = torch.where(_is(code_B, "rotate"), -torch.deg2rad(amount_B), zero)
    sine, cosine = angle_B.sin(), angle_B.cos()
    to_x = torch.where(_is(code_B, "shear-x"), amount_B, sine)
    to_y = torch.where(_is(code_B, "shear-y"), amount_B, -sine)
    shift_x = torch.where(_is(code_B, "translate-x"), amount_B * width, zero)
    shift_y = torch.where(_is(code_B, "translate-y"), amount_B * height, zero)
    turning = _is(code_B, "rotate")
    middle_x, middle_y = torch.where(turning, width / 2, zero), torch.where(turning, height / 2, zero)
    x = torch.arange(width, device=images.device) + 0.5 - middle_x[:, None]
    y = torch.arange(height, device=images.device) + 0.5 - middle_y[:, None]
    x_B1W, y_BH1 = x[:, None, :], y[:, :, None]

    def at(value: Tensor) -> Tensor:
        return value[:, None, None]

    from_x = (at(cosine) * x_B1W + at(to_x) * y_BH1 + at(shift_x + middle_x)).floor()
    from_y = (at(to_y) * x_B1W + at(cosine) * y_BH1 + at(shift_y + middle_y)).floor()
    inside = (from_x >= 0) & (from_x < width) & (from_y >= 0) & (from_y < height)
    place = from_y.clamp(0, height - 1) * width + from_x.clamp(0, width - 1)
    index = place.long().flatten(1)[:, None].expand(-1, images.shape[1], -1)
    moved = images.flatten(2).gather(2, index).view_as(images)
    return moved.masked_fill(~inside[:, None], round(fill))


def _enhanced(images: Tensor, code_B: Tensor, amount_B: Tensor) -> Tensor:
    """Enhancement: a blend with a degenerate image (black, flat grey, grey or smoothed) by factor 1 + amount."""
    exact = images.float()
    red, green, blue = exact.unbind(1)
    # The integer weights of Pillow's RGB to grey conversion, whose sum is 2^16.
    grey = ((red * 19595 + green * 38470 + blue * 7471 + 32768) / 65536).floor()[:, None]
    flat = (grey.mean((1, 2, 3), keepdim=True) + 0.5).floor()
    smooth = torch.where(_border(images), exact, ((_box_sum(images) + 4 * exact) / 13 + 0.5).floor())

    def chosen(name: str) -> Tensor:
        return _is(code_B, name)[:, None, None, None]

    plain = torch.where(chosen("color"), grey, torch.where(chosen("sharpness"), smooth, 0.0))
    plain = torch.where(chosen("contrast"), flat, plain)
    factor = (1 + amount_B)[:, None, None, None]
    blend = (plain + factor * (exact - plain)).clamp(0, 255).byte()
    return torch.where(_is(code_B, "brightness", "contrast", "color", "sharpness")[:, None, None, None], blend, images)


def _box_sum(images: Tensor) -> Tensor:
    """The sums over 3 × 3 neighbourhoods (B, 3, H, W), in 16 bits."""
    padded = F.pad(images.short(), (1, 1, 1, 1))
    rows = padded[:, :, :-2] + padded[:, :, 1:-1] + padded[:, :, 2:]
    return rows[..., :-2] + rows[..., 1:-1] + rows[..., 2:]


def _border(images: Tensor) -> Tensor:
    """The mask of border pixels (H, W), which Pillow's smoothing leaves unchanged."""
    down, across = (torch.arange(side, device=images.device) for side in images.shape[2:])
    edges = [(at == 0) | (at == len(at) - 1) for at in (down, across)]
    return edges[0][:, None] | edges[1]


def _mapped_levels(images: Tensor, code_B: Tensor, amount_B: Tensor) -> Tensor:
    """Level operations by a lookup table for each image and channel (B, 3, 256)."""
    count = histograms(images.flatten(2), _is(code_B, "autocontrast", "equalize"))
    table = torch.arange(LEVELS, device=images.device, dtype=torch.float32).expand_as(count)

    def at(value: Tensor) -> Tensor:
        return value[:, None, None]

    step = torch.exp2(8 - at(amount_B))
    posterized = (table / step).floor() * step
    solarized = torch.where(table < at(amount_B), table, 255 - table)
    made = torch.where(at(_is(code_B, "posterize")), posterized, table)
    made = torch.where(at(_is(code_B, "solarize")), solarized, made)
    made = torch.where(at(_is(code_B, "invert")), 255 - table, made)
    made = torch.where(at(_is(code_B, "autocontrast")), _stretched(table, count), made)
    made = torch.where(at(_is(code_B, "equalize")), _equalized(table, count), made)
    return made.byte().gather(2, images.flatten(2).long()).view_as(images)


def _stretched(table: Tensor, count: Tensor) -> Tensor:
    """Autocontrast: stretch the range of levels to 0 … 255."""
    there = count > 0
    low = there.int().argmax(2, keepdim=True)
    high = 255 - there.flip(2).int().argmax(2, keepdim=True)
    scale = 255.0 / (high - low).clamp(min=1)
    stretched = (table * scale - low * scale).clamp(0, 255)
    # Pillow truncates doubles; in float32 a value just below an integer must not lose a level.
    return torch.where(high > low, (stretched + 1e-3).floor(), table)


def _equalized(table: Tensor, count: Tensor) -> Tensor:
    """Histogram equalisation, as in Pillow."""
    total = count.sum(2, keepdim=True)
    last = 255 - (count > 0).flip(2).int().argmax(2, keepdim=True)
    step = (total - count.gather(2, last)) // 255
    before = count.cumsum(2) - count
    mapped = (before + step // 2) // step.clamp(min=1)
    return torch.where(step > 0, mapped.clamp(0, 255).to(table.dtype), table)
