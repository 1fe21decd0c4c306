"""Attention with absorbed projections equals attention over projected keys and values."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from headway.nn.attention import split_heads
from headway.ops import Lengths, absorbed_attention, attend

ROWS, HEADS, QUERIES, KEYS, WIDTH = 3, 2, 2, 11, 12
NONE, SOME, EMPTY = None, torch.tensor([11, 4, 1]), torch.tensor([7, 0, 11])


def made(dtype: torch.dtype = torch.float64) -> list[Tensor]:
    """q (B, H, T, E), x (B, S, D), the maps of keys and values (D, D) and the values' bias (D,)."""
    shapes = ((ROWS, HEADS, QUERIES, WIDTH // HEADS), (ROWS, KEYS, WIDTH), (WIDTH, WIDTH), (WIDTH, WIDTH), (WIDTH,))
    return [torch.randn(shape).to(dtype).requires_grad_() for shape in shapes]


def by_projection(
    q: Tensor, x: Tensor, keys: Tensor, values: Tensor, bias: Tensor | None, mask: Lengths | None
) -> Tensor:
    k = split_heads(x @ keys.mT, HEADS)
    v = split_heads(torch.nn.functional.linear(x, values, bias), HEADS)
    return attend(q, k, v, mask=mask, scale=0.3, kernel="reference")


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("biased", [True, False])
@pytest.mark.parametrize("lengths", [NONE, SOME, EMPTY])
def test_values_and_gradients_are_those_of_projected_keys_and_values(lengths, biased, known):
    given = made()
    tensors = [*given[:4], given[4] if biased else None]
    mask = None if lengths is None else Lengths(lengths)
    if mask is not None and not known:  # as on a GPU, where a look at the lengths would wait
        assert not mask.once("none empty", lambda: False)
    wanted = [x for x in tensors if x is not None]
    probe = torch.randn_like(given[0])
    found = []
    for out in (absorbed_attention.attend_absorbed(*tensors, mask=mask, scale=0.3), by_projection(*tensors, mask)):
        found.append([out.detach(), *torch.autograd.grad((out * probe).sum(), wanted)])
    for got, want in zip(*found, strict=True):
        torch.testing.assert_close(got, want, rtol=1e-10, atol=1e-10)


@torch.no_grad()
def test_in_16_bits_it_is_no_farther_from_the_truth_than_projecting():
    rows, heads, keys, width = 2, 4, 500, 256
    truth = [torch.randn(rows, heads, 1, width // heads), torch.randn(rows, keys, width)]
    truth += [torch.randn(width, width) * width**-0.5 for _ in range(2)]
    mask = Lengths(torch.tensor([keys, keys // 2]))
    short = [x.bfloat16() for x in truth]
    want = absorbed_attention.attend_absorbed(*(x.double() for x in short), None, mask=mask, scale=0.3)
    k, v = (split_heads(short[1] @ short[n].mT, heads) for n in (2, 3))
    farther = (attend(short[0], k, v, mask=mask, scale=0.3).double() - want).abs().mean()
    assert (
        absorbed_attention.attend_absorbed(*short, None, mask=mask, scale=0.3).double() - want
    ).abs().mean() < 1.5 * farther


@torch.no_grad()
def test_nothing_that_was_never_written_is_read(monkeypatch):
    """torch's own compiler, when it tunes, multiplies by beta = 0 what the operator itself would not read."""
    given = made()
    want = absorbed_attention.attend_absorbed(*given, mask=None, scale=0.3)
    monkeypatch.setattr(torch, "baddbmm", lambda x, a, b, *, beta=1, alpha=1: beta * x + alpha * (a @ b))
    monkeypatch.setattr(Tensor, "new_empty", lambda x, *shape: x.new_full(shape, torch.nan))
    torch.testing.assert_close(absorbed_attention.attend_absorbed(*given, mask=None, scale=0.3), want)


def test_it_is_faster_for_few_queries():
    assert absorbed_attention.is_faster_for(1, 12, 768)
    assert absorbed_attention.is_faster_for(32, 12, 768)
    assert not absorbed_attention.is_faster_for(33, 12, 768)
