"""Tiles are chosen by what a generation of GPUs has room for."""

from types import SimpleNamespace

import pytest
import torch

from headway.ops.kernels import flash_settings
from headway.ops.kernels.flash_settings import NARROW, SINGLE, TIGHT, TINY, WIDE, WIDE_HOPPER, WIDE_TIGHT, tiles


def on_gpu(width: int, dtype: torch.dtype = torch.bfloat16) -> SimpleNamespace:
    return SimpleNamespace(is_cuda=True, shape=(1, 1, 16, width), element_size=lambda: dtype.itemsize)


@pytest.mark.parametrize(
    ("generation", "width", "tight", "taken"),
    [
        (90, 64, False, NARROW),
        (90, 64, True, TIGHT),
        (90, 128, False, WIDE_HOPPER),
        (90, 80, False, WIDE_HOPPER),
        (90, 128, True, WIDE_TIGHT),
        (80, 128, False, WIDE),
        (100, 128, False, WIDE),
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
