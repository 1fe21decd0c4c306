"""Tiles are chosen by what a generation of GPUs has room for, and by the length of the text."""

from types import SimpleNamespace

import pytest
import torch

from headway.ops.kernels.triton_flash import tuning as tuning
from headway.ops.kernels.triton_flash.tuning import (
    FLOAT32_TILES,
    INTERPRETER_TILES,
    NARROW,
    NARROW_SMALL,
    WIDE,
    WIDE_HOPPER,
    WIDE_SMALL,
    select_tiles,
)


def on_gpu(width: int, length: int, dtype: torch.dtype = torch.bfloat16) -> SimpleNamespace:
    return SimpleNamespace(is_cuda=True, shape=(1, 1, length, width), element_size=lambda: dtype.itemsize)


@pytest.mark.parametrize(
    ("generation", "width", "length", "small", "taken"),
    [
        (90, 64, 16384, False, NARROW),
        (90, 64, 16384, True, NARROW_SMALL),
        (90, 128, 16384, False, WIDE_HOPPER),
        (90, 80, 8192, False, WIDE_HOPPER),
        (90, 128, 8191, False, WIDE),
        (90, 128, 4096, False, WIDE),
        (90, 128, 16384, True, WIDE_SMALL),
        (90, 128, 4096, True, WIDE_SMALL),
        (80, 128, 16384, False, WIDE),
        (100, 128, 16384, False, WIDE),
    ],
)
def test_the_largest_tiles_are_hoppers_alone_and_for_long_texts(monkeypatch, generation, width, length, small, taken):
    monkeypatch.setattr(tuning, "capability", lambda: generation)
    x = on_gpu(width, length)
    assert select_tiles(x, x, small=small) is taken


def test_the_queries_count_not_the_keys(monkeypatch):
    monkeypatch.setattr(tuning, "capability", lambda: 90)
    long, short = on_gpu(128, 8192), on_gpu(128, 4096)
    assert select_tiles(long, short, small=False) is WIDE_HOPPER
    assert select_tiles(short, long, small=False) is WIDE


def test_float32_and_the_interpreter_have_small_ones():
    wide, here = on_gpu(128, 16384, torch.float32), torch.zeros(1, 1, 16, 128)
    assert select_tiles(wide, wide, small=False) is FLOAT32_TILES
    assert select_tiles(here, here, small=False) is INTERPRETER_TILES
