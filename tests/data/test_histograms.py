"""Levels counted by Triton, in its interpreter where there is no GPU, are those that torch counts."""

import pytest
import torch

from headway.data.histograms import histograms

pytest.importorskip("triton")
with pytest.MonkeyPatch.context() as patch:  # tests/conftest.py imported Triton the same way
    patch.setenv("TRITON_INTERPRET", "0" if torch.cuda.is_available() else "1")
    from headway.data import histogram_tiles
device = "cuda" if torch.cuda.is_available() else "cpu"


@pytest.mark.parametrize("pixels", [1, 200, 1024, 3 * 1024 + 7])
def test_levels_are_counted_of_images_that_are_asked_about(monkeypatch, pixels):
    monkeypatch.setattr(histogram_tiles, "PART", 2048)  # more than one part
    images = torch.randint(0, 256, (4, 3, pixels), dtype=torch.uint8)
    images[2] = 255  # one level alone
    asked = torch.tensor([True, False, True, True])
    made = histogram_tiles.counted(images.to(device), asked.to(device)).cpu()
    expected = histograms(images, asked)
    assert expected.sum(2).unique().tolist() == [pixels]
    assert torch.equal(made, expected * asked[:, None, None])


def test_images_that_lie_otherwise_in_memory_are_counted_too():
    images = torch.randint(0, 256, (2, 300, 3), dtype=torch.uint8).transpose(1, 2)
    asked = torch.tensor([True, False, True, False])[::2]
    made = histogram_tiles.counted(images.to(device), asked.to(device)).cpu()
    assert torch.equal(made, torch.stack([torch.stack([c.long().bincount(minlength=256) for c in i]) for i in images]))


def test_of_nothing_there_is_nothing():
    none = torch.zeros(0, 3, 5, dtype=torch.uint8, device=device)
    assert histogram_tiles.counted(none, torch.zeros(0, dtype=torch.bool, device=device)).shape == (0, 3, 256)
