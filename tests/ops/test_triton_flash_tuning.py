"""Tiles are chosen by what a generation of GPUs has room for, and by the length of the text."""

from types import SimpleNamespace

import pytest
import torch

from headway.ops.kernels.triton_flash import tuning as flash_settings
from headway.ops.kernels.triton_flash.tuning import NARROW, SINGLE, TIGHT, TINY, WIDE, WIDE_HOPPER, WIDE_TIGHT, tiles


def on_gpu(width: int, length: int, dtype: torch.dtype = torch.bfloat16) -> SimpleNamespace:
    return SimpleNamespace(is_cuda=True, shape=(1, 1, length, width), element_size=lambda: dtype.itemsize)


@pytest.mark.parametrize(
    ("generation", "width", "length", "tight", "taken"),
    [
        (90, 64, 16384, False, NARROW),
        (90, 64, 16384, True, TIGHT),
        (90, 128, 16384, False, WIDE_HOPPER),
        (90, 80, 8192, False, WIDE_HOPPER),
        (90, 128, 8191, False, WIDE),
        (90, 128, 4096, False, WIDE),
        (90, 128, 16384, True, WIDE_TIGHT),
        (90, 128, 4096, True, WIDE_TIGHT),
        (80, 128, 16384, False, WIDE),
        (100, 128, 16384, False, WIDE),
    ],
)
def test_the_largest_tiles_are_hoppers_alone_and_for_long_texts(monkeypatch, generation, width, length, tight, taken):
    monkeypatch.setattr(flash_settings, "capability", lambda: generation)
    x = on_gpu(width, length)
    assert tiles(x, x, tight=tight) is taken


def test_the_queries_count_not_the_keys(monkeypatch):
    monkeypatch.setattr(flash_settings, "capability", lambda: 90)
    long, short = on_gpu(128, 8192), on_gpu(128, 4096)
    assert tiles(long, short, tight=False) is WIDE_HOPPER
    assert tiles(short, long, tight=False) is WIDE


def test_float32_and_the_interpreter_have_small_ones():
    wide, here = on_gpu(128, 16384, torch.float32), torch.zeros(1, 1, 16, 128)
    assert tiles(wide, wide, tight=False) is SINGLE
    assert tiles(here, here, tight=False) is TINY
