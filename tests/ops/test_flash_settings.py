"""Tiles are chosen by what a generation of GPUs has room for."""

from types import SimpleNamespace

import pytest
import torch

from headway.ops.kernels import flash_settings
from headway.ops.kernels.flash_settings import NARROW, SINGLE, TIGHT, TINY, WIDE, WIDE_HOPPER, tiles


def on_gpu(width: int, dtype: torch.dtype = torch.bfloat16) -> SimpleNamespace:
    return SimpleNamespace(is_cuda=True, shape=(1, 1, 16, width), element_size=lambda: dtype.itemsize)


@pytest.mark.parametrize(
    ("generation", "width", "tight", "taken"),
    [
        ((9, 0), 64, False, NARROW),
        ((9, 0), 64, True, TIGHT),
        ((9, 0), 128, False, WIDE_HOPPER),
        ((9, 0), 80, False, WIDE_HOPPER),
        ((9, 0), 128, True, WIDE),
        ((8, 0), 128, False, WIDE),
        ((10, 0), 128, False, WIDE),
    ],
)
def test_the_largest_tiles_are_hoppers_alone(monkeypatch, generation, width, tight, taken):
    monkeypatch.setattr(flash_settings, "capability", lambda: generation)
    x = on_gpu(width)
    assert tiles(x, x, tight=tight) is taken


def test_float32_and_the_interpreter_have_small_ones():
    wide, here = on_gpu(128, torch.float32), torch.zeros(1, 1, 16, 128)
    assert tiles(wide, wide, tight=False) is SINGLE
    assert tiles(here, here, tight=False) is TINY
