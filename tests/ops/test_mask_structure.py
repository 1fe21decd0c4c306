"""The bands that bound a mask, masks that are a band, and the indices of global tokens."""

import math
from dataclasses import replace

import pytest
import torch

from headway.ops import Causal, Global, Lengths, Window
from headway.ops.mask_structure import (
    EMPTY_BAND,
    Band,
    BandMask,
    MarkedTokens,
    MaskStructure,
    as_band,
    band_of,
    globals_of,
    mask_of_global_queries,
)
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
    band = as_band(mask)
    assert isinstance(band, BandMask)
    assert (band.low, band.high) == (low, high)
    i, j = torch.arange(9).view(-1, 1), torch.arange(9)
    if mask is not None:
        assert torch.equal(~band.outside(i, j), mask.dense(9, 9)[0, 0].expand(9, 9))


def test_lengths_join_to_the_shorter():
    band = as_band(Lengths(torch.tensor([3, 9])) & Lengths(torch.tensor([5, 2])) & Causal())
    assert isinstance(band, BandMask)
    assert band.lengths.tolist() == [3, 2]


# --- bands that bound a mask ---

MARKS = Global(torch.tensor([[True, False, False]]))


@pytest.mark.parametrize(
    ("mask", "expected"),
    [
        (Window(2), Band(-2, 2)),
        (Window(2, 1, 3, offset=4), Band(-2, 7, 3, 1)),
        (Window(2) & Causal(), Band(-2, 0)),
        (Window(1, dilation=4) & Window(9, dilation=2), Band(-4, 4, 4, 0)),
        (Window(1, dilation=2) | Window(3, dilation=2), Band(-6, 6, 2, 0)),
        (Window(1, dilation=2) | Window(1, dilation=3), Band(-3, 3)),
        (Window(0) & Window(0, offset=3), EMPTY_BAND),
        (Causal(), Band(-math.inf, 0)),
        (MARKS, Band()),
    ],
)
def test_bands(mask, expected):
    assert band_of(mask, 0) == expected


def test_one_global_part_is_separated_only_where_the_band_is_infinite_with_it():
    assert MaskStructure.of(Window(2) | MARKS, 2).global_tokens is MARKS
    assert MaskStructure.of(Window(2) & MARKS, 2).global_tokens is None
    assert MaskStructure.of(Window(2) | MARKS | Global(MARKS.marks), 2).global_tokens is None
    assert not MaskStructure.of(Window(2) | MARKS | Global(MARKS.marks), 2).finite
    assert not MaskStructure.of(Window(2) | MARKS.at(torch.tensor(1)), 2).finite
    assert MaskStructure.of(MARKS, 2).width == 0
    assert globals_of((Window(2) | MARKS) & Causal()) == (MARKS,)


def test_heads_with_equal_dilation_share_a_band():
    assert list(MaskStructure.of(Window(2, dilation=(1, 2, 1)), 3).bands.values()) == [[0, 2], [1]]


def test_marked_tokens_are_gathered_and_scattered():
    marks = torch.tensor([[True, False, True], [False, False, False], [False, True, False]])
    marked = MarkedTokens.of(marks)
    x = torch.arange(18.0).view(3, 2, 3, 1)
    assert marked.index.shape == (3, 2)
    assert marked.real.tolist() == [[True, True], [False, False], [True, False]]
    assert marked.index.tolist() == [[0, 2], [0, 1], [1, 0]]  # padded with tokens that are not marked
    assert (marked.rows.tolist(), marked.slots.tolist(), marked.positions.tolist()) == ([0, 0, 2], [0, 1, 0], [0, 2, 1])
    want = torch.where(marks[:, None, :, None], -x, x)
    torch.testing.assert_close(marked.scatter(x, -marked.gather(x)), want)
    assert marked.padded_index.tolist() == [[0, 2], [-1, -1], [1, -1]]
    mine = x.clone()
    assert marked.scatter_(mine, -marked.gather(x)) is mine
    torch.testing.assert_close(mine, want)
    leaf = x.clone().requires_grad_()
    torch.testing.assert_close(marked.scatter_(leaf * 1, -marked.gather(leaf)), want)
    assert torch.equal(leaf, x)


@pytest.mark.parametrize("marks", [torch.zeros(2, 5), torch.ones(2, 5), torch.zeros(0, 5), torch.zeros(2, 0)])
def test_no_marks_and_nothing_but_marks(marks):
    marked = MarkedTokens.of(marks.bool())
    x = torch.randn(len(marks), 2, marks.shape[1], 3)
    assert marked.count == (5 if marks.any() else 0)
    torch.testing.assert_close(marked.scatter(x, -marked.gather(x)), -x if marks.any() else x)


def test_the_mask_of_global_queries():
    lengths, mark = Lengths(torch.tensor([3])), Global(torch.tensor([[True, False, False, False]]))
    assert mask_of_global_queries(mark) is None
    assert mask_of_global_queries(Window(1) | mark) is None
    assert mask_of_global_queries((Window(1) | mark) & lengths) is lengths
    assert mask_of_global_queries(Window(1) | (mark & lengths)) == Window(1) | lengths
    assert mask_of_global_queries(Window(1) & lengths) == Window(1) & lengths
    blind = replace(mark, seeing=False)
    assert mask_of_global_queries((Window(1) | blind) & lengths) == (Window(1) | blind) & lengths
