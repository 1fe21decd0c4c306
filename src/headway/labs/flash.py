"""FlashAttention in plain torch: tile after tile with a running maximum and sum, exact, and the bytes that it moves.

The kernel `tiled` (headway.ops.kernels.flash_torch) meets the keys in tiles and never has the T × S scores in memory
(Dao et al. 2022, section 3.1; Dao 2023). Here it is compared with the plain formula for every size of a tile, followed
from tile to tile, and its reads and writes are counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from headway.config import positive
from headway.errors import ConfigError
from headway.labs.exercise import Exercise, PlantedBug, replaced
from headway.labs.frame import Lab, LabFigure, LabOutcome, LabTable, Slide, at_least, at_most, equals, holds, progress
from headway.ops import Causal, Mask, Window
from headway.ops.kernels import flash_torch, reference
from headway.ops.kernels.base import AttentionInputs
from headway.ops.kernels.flash_torch import TileSize
from headway.plots import lab_figures as draw

QUERIES, KEYS, HEADS = 37, 45, 2  # divided by few tiles
SIDES = (1, 2, 3, 7, 16, 32, 64)
QUICK_SIDES = (3, 16, 64)
MASKS: dict[str, Mask | None] = {"none": None, "causal": Causal(), "window of 5": Window(5)}
LARGE = 1e4  # a score: e^10000 is infinite
STATISTIC = 4  # bytes of L, a float32 for each query
BFLOAT = 2  # bytes of a number in the computed curves
LENGTHS = tuple(2**n for n in range(8, 15))


@dataclass(frozen=True, slots=True, kw_only=True)
class FlashParameters:
    """The attention whose bytes are counted."""

    length: int = 256  # queries and keys
    width: int = 32  # features of a head
    tile: int = 32  # queries and keys in fast memory at a time

    def __post_init__(self) -> None:
        positive("--width", self.width)
        positive("--tile", self.tile)
        if not self.tile <= self.length <= 4096:
            raise ConfigError(f"--length {self.length}: expected at least --tile, {self.tile}, and at most 4,096")


def tiled(inputs: AttentionInputs, tile: TileSize) -> tuple[Tensor, Tensor]:
    """The output (B, H, T, W) and L, the log of each softmax's denominator, tile by tile."""
    return flash_torch.attend_with_lse(inputs, tile)


def traffic(length: int, width: int, tile: int, mask: Mask | None, number: int) -> int:
    """Bytes that the forward pass moves: Q, O and L once; for every tile of queries the keys and values it may see."""
    seen = sum(
        min(tile, length - j)
        for i in range(0, length, tile)
        for j in range(0, length, tile)
        if mask is None or _touches(mask, i, j, tile)
    )
    return 2 * length * width * number + 2 * seen * width * number + STATISTIC * length


def _touches(mask: Mask, i: int, j: int, tile: int) -> bool:
    low, high = mask.reach()
    return j + tile - 1 - i >= low and j - (i + tile - 1) <= high


def naive_traffic(length: int, width: int, number: int) -> int:
    """Bytes of the plain formula: Q, K, V, O once; scores and weights are written and read, T × S numbers each time."""
    return number * (4 * length * length + 4 * length * width)


@contextmanager
def counted(moved: list[int]) -> Iterator[None]:
    """Within this context every read and write of the kernel is put on the list, in bytes."""
    own_read, own_write = flash_torch.read, flash_torch.write

    def read(x: Tensor, span: slice) -> Tensor:
        moved.append(x[:, :, span].numel() * x.element_size())
        return own_read(x, span)

    def write(x: Tensor, span: slice, value: Tensor) -> None:
        moved.append(x[:, :, span].numel() * x.element_size())
        own_write(x, span, value)

    with replaced(flash_torch, "read", read), replaced(flash_torch, "write", write):
        yield


def inputs(queries: int, keys: int, width: int, mask: Mask | None, **how: Any) -> AttentionInputs:
    """Random queries, keys and values of two heads."""
    sizes = (queries, keys, keys)
    q, k, v = (torch.randn(1, HEADS, size, width, dtype=torch.float64, **how) for size in sizes)
    return AttentionInputs(q, k, v, mask, None, width**-0.5)


def differences(tile: TileSize, mask: Mask | None, seed: int) -> tuple[float, float]:
    """The largest difference from the plain formula, of the output and of the gradients."""
    found = []
    for way in (lambda each: tiled(each, tile)[0], reference.run):
        made = inputs(QUERIES, KEYS, 8, mask, generator=torch.Generator().manual_seed(seed), requires_grad=True)
        out = way(made)
        weights = torch.linspace(-1, 1, out.numel(), dtype=out.dtype).view_as(out)
        found.append((out, *torch.autograd.grad((out * weights).sum(), (made.q, made.k, made.v))))
    gaps = [float((a - b).detach().abs().max()) for a, b in zip(*found, strict=True)]
    return gaps[0], max(gaps[1:])


def walk(made: AttentionInputs, tile: int) -> list[tuple[int, float, float, float, float]]:
    """Tile by tile for the first query: keys so far, running maximum, L, L by the formula, distance from the end."""
    q, k, v = (x[:, :1] for x in (made.q, made.k, made.v))
    scores = (made.scale * q[:, :, :1] @ k.mT).flatten()
    final, rows = None, []
    for end in reversed(range(tile, k.shape[2] + tile, tile)):
        some = AttentionInputs(q[:, :, :1], k[:, :, :end], v[:, :, :end], None, None, made.scale)
        out, lse = tiled(some, TileSize(1, tile))
        final = out if final is None else final
        so_far = scores[:end]
        away = float((out - final).norm() / final.norm())
        rows.append((min(end, len(scores)), float(so_far.max()), float(lse), float(so_far.logsumexp(0)), away))
    return rows[::-1]


def run(parameters: FlashParameters, seed: int, quick: bool) -> LabOutcome:
    """Equality for every tile, the walk, large scores, and bytes."""
    sides = QUICK_SIDES if quick else SIDES
    worst = {name: [0.0, 0.0] for name in MASKS}
    for number, side in enumerate(sides):
        for other in sides:
            for name, mask in MASKS.items():
                gaps = differences(TileSize(side, other), mask, seed)
                worst[name] = [max(pair) for pair in zip(worst[name], gaps, strict=True)]
        progress("tiles", number + 1, len(sides))
    generator = torch.Generator().manual_seed(seed)
    length, width, tile = parameters.length, parameters.width, parameters.tile
    made = inputs(length, length, width, None, generator=generator)
    steps = walk(AttentionInputs(3 * made.q, made.k, made.v, None, None, made.scale), tile)
    large = AttentionInputs(made.q, made.k, made.v, None, None, LARGE)
    found, plain = tiled(large, TileSize(tile, tile))[0], reference.run(large)
    powers = (LARGE * made.q @ made.k.mT).exp()
    bare = powers @ made.v / powers.sum(-1, keepdim=True)
    counts = {}
    for name, mask in {**MASKS, f"window of {tile}": Window(tile)}.items():
        moved: list[int] = []
        half = [x.to(torch.bfloat16)[:, :1] for x in (made.q, made.k, made.v)]
        with counted(moved):
            tiled(AttentionInputs(half[0], half[1], half[2], mask, None, made.scale), TileSize(tile, tile))
        counts[name] = (sum(moved), traffic(length, width, tile, mask, BFLOAT))
    naive = {n: naive_traffic(n, 64, BFLOAT) for n in LENGTHS}
    by_tile = {t: {n: traffic(n, 64, t, None, BFLOAT) for n in LENGTHS} for t in (64, 128, 256)}
    checks = [
        at_most("output of every tile = formula, largest difference", max(x[0] for x in worst.values()), 1e-12),
        at_most("gradients of every tile = formula, largest difference", max(x[1] for x in worst.values()), 1e-12),
        at_most("L after each tile = log Σ e^score, largest difference", max(abs(s[2] - s[3]) for s in steps), 1e-12),
        holds(f"scores of {LARGE:g} times larger: the tiled output is finite", bool(found.isfinite().all())),
        at_most("the same: difference from the formula", float((found - plain).abs().max()), 1e-9),
        at_least("without the running maximum: share of outputs that are NaN", float(bare.isnan().float().mean()), 0.5),
        *(equals(f"bytes moved = counted by hand, mask {name}", *each) for name, each in counts.items()),
        *(equals(f"bytes of the formula / of tiles of {t}, length 16,384: 2·tile/width", naive[16384] / each[16384],
                 2 * t / 64, 0.04 * t / 64) for t, each in by_tile.items()),
        equals("bytes of tiles grow like T²: 2 times the length", by_tile[128][16384] / by_tile[128][8192], 4, 0.05),
    ]  # fmt: skip
    tables = [
        LabTable(
            title=f"tiled against the plain formula, float64, {QUERIES} queries, {KEYS} keys, {len(sides) ** 2} tiles",
            header=("mask", "output, largest difference", "gradients, largest difference"),
            rows=[(name, *gaps) for name, gaps in worst.items()],
        ),
        LabTable(
            title=f"one query walks over its keys, {tile} at a time",
            header=("keys so far", "running maximum m", "L = m + ln l", "distance from the result"),
            rows=[(s[0], s[1], s[2], s[4]) for s in steps],
            note="When the maximum rises from m to m′, what was summed so far is multiplied by e^(m − m′).",
        ),
        LabTable(
            title=f"bytes moved forward, length {length}, width {width}, tiles of {tile}, bfloat16",
            header=("mask", "counted", "by hand"),
            rows=[(name, *each) for name, each in counts.items()],
        ),
        LabTable(
            title="bytes moved forward by length, width 64, bfloat16",
            header=("length T", "formula", *(f"tiles of {t}" for t in by_tile)),
            rows=[(n, naive[n], *(each[n] for each in by_tile.values())) for n in LENGTHS],
        ),
    ]
    notes = [
        "FlashAttention is not an approximation: the tiled result is the formula's to the last digits, and safe for any"
        " scores. It saves no multiplication and its bytes still grow like T², but are 2·tile/width times"
        " fewer; what grows like T only is the memory it needs."
    ]
    figures = [_figure(steps, naive, by_tile)]
    return LabOutcome(tables=tables, figures=figures, checks=checks, notes=notes)


def _figure(
    steps: list[tuple[int, float, float, float, float]], naive: dict[int, int], by_tile: dict[int, dict[int, int]]
) -> LabFigure:
    figure, (left, right) = draw.panels(2, height=3.4)
    at = [s[0] for s in steps]
    draw.line(left, at, [s[1] for s in steps], "running maximum m", 0)
    draw.line(left, at, [s[2] for s in steps], "L = m + ln l", 1)
    draw.line(left, at, [s[4] for s in steps], "distance from the result", 2)
    left.set_ylim(top=1.5 * max(s[2] for s in steps))  # room for the legend above the lines
    draw.style(left, "One query, tile by tile", "keys so far", "score (nats); distance (share)", legend="upper left")
    draw.line(right, LENGTHS, [naive[n] / 2**20 for n in LENGTHS], "formula", 1)
    for number, (tile, each) in enumerate(by_tile.items()):
        draw.line(right, LENGTHS, [each[n] / 2**20 for n in LENGTHS], f"tiles of {tile}", (0, 2, 3)[number])
    right.set_xscale("log", base=2)
    right.set_yscale("log", base=2)
    draw.style(right, "Moved in a forward pass", "length T (tokens)", "bytes of a head (MiB)", legend="upper left")
    alt = (
        f"Left: for one query the running maximum rises from {steps[0][1]:.2f} to {steps[-1][1]:.2f} and L to"
        f" {steps[-1][2]:.2f} over {len(steps)} tiles, while the distance from the result falls to 0. Right: bytes"
        f" moved by length: at 16,384 tokens {naive[16384] / 2**20:,.0f} MiB by the formula,"
        f" {by_tile[128][16384] / 2**20:,.0f} MiB in tiles of 128; both rise like the square."
    )
    return LabFigure(alt=alt, figure=figure)


LAB = Lab(
    name="flash",
    chapter=10,
    title="attention in tiles: exact, and with fewer bytes",
    claim="Attention tile by tile, with a running maximum and sum, is the plain formula's result for every tile size,"
    " stays finite for any scores, and moves 2·tile/width times fewer bytes, which still grow like T².",
    slides=(Slide("003", "FlashAttention", 313),),
    parameters=FlashParameters,
    run=run,
    mechanism=("tiled", "traffic"),
    exercise=Exercise(
        function="headway.ops.kernels.flash_torch:forward",
        cut=("new_max =", "row_max = new_max"),
        task="For one tile of scores (…, queries, keys): the new maximum, e^(scores − new maximum), and the sum"
        " row_sum and the weighted values `mixed`, both rescaled from the old maximum to the new one. The"
        " module's docstring has the formulas; inputs.repeat_kv(v) are the values, and _finite(maximum) is 0"
        " where it is still −∞.",
        hints=(
            "m' = max(m, rowmax S) with keepdim=True, so that it can be subtracted.",
            "What was summed with the old maximum m has to be multiplied by e^(m − m').",
            "row_sum = rescale * row_sum + powers.sum(-1, keepdim=True), and the same for mixed with powers @ v.",
        ),
        bugs=(
            PlantedBug(
                right="rescale * mixed + powers",
                wrong="mixed + powers",
                fails="output of every tile",
                hint="What if a later tile has a larger maximum?",
            ),
            PlantedBug(
                right="rescale * row_sum + powers",
                wrong="row_sum + powers",
                fails="output of every tile",
                hint="Which of the running numbers have to be rescaled?",
            ),
        ),
    ),
)
