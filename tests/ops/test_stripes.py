"""Bands: which masks are one, and what they allow."""

import pytest
import torch

from headway.ops import Causal, Global, Lengths, Window
from headway.ops.stripes import Stripe, stripe
from tests.ops.cases import marks


@pytest.mark.parametrize(
    ("mask", "low", "high"),
    [
        (None, None, None),
        (Causal(offset=3), None, 3),
        (Window(4, 2, offset=1), -3, 3),
        (Window(4) & Causal(), -4, 0),
        (Window(4) & Window(9, 1), -4, 1),
        (Window(4) | Global(marks(1, 9)), -4, 4),
    ],
)
def test_a_band_is_what_the_mask_allows(mask, low, high):
    band = stripe(mask)
    assert isinstance(band, Stripe)
    assert (band.low, band.high) == (low, high)
    i, j = torch.arange(9).view(-1, 1), torch.arange(9)
    if mask is not None:
        assert torch.equal(~band.outside(i, j), mask.dense(9, 9)[0, 0].expand(9, 9))


def test_lengths_join_to_the_shorter():
    band = stripe(Lengths(torch.tensor([3, 9])) & Lengths(torch.tensor([5, 2])) & Causal())
    assert isinstance(band, Stripe)
    assert band.lengths.tolist() == [3, 2]
