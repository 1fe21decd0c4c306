"""Attention over per-query key indices agrees with the reference, for both memory layouts of a KV cache."""

from __future__ import annotations

import warnings

import pytest
import torch
from torch import Tensor

from headway.errors import ShapeError
from headway.ops import Causal, Lengths, Listed, Mask, attend
from headway.ops.attend import checked
from headway.ops.kernels import gathered

pytestmark = pytest.mark.skipif(not gathered.is_available(), reason="torch lacks one of the two operations")

ROWS, HEADS, KEYS, WIDTH = 8, 4, 21, 8


def cached(order: str, keys: int = KEYS) -> tuple[Tensor, Tensor]:
    """Keys and values in a cache with room for more, filled with NaN, which must not be read."""
    generator = torch.Generator().manual_seed(keys)
    found = []
    for _ in range(2):
        sizes = (ROWS, HEADS, keys + 5, WIDTH) if order == "heads" else (ROWS, keys + 5, HEADS, WIDTH)
        buffer = torch.full(sizes, torch.nan)
        x = (buffer if order == "heads" else buffer.transpose(1, 2)).narrow(2, 0, keys)
        found.append(x.copy_(torch.randn(x.shape, generator=generator)))
    return found[0], found[1]


def queries(count: int) -> Tensor:
    return torch.randn(ROWS, HEADS, count, WIDTH, generator=torch.Generator().manual_seed(count))


def some_keys(count: int, each: int) -> Tensor:
    generator = torch.Generator().manual_seed(each)
    return torch.rand(ROWS, count, KEYS, generator=generator).argsort(-1)[..., :each]


@pytest.mark.parametrize("order", ["heads", "positions"])
@pytest.mark.parametrize("count", [3, 4, 16])
@pytest.mark.parametrize("each", [1, 7, 16, KEYS])
@torch.inference_mode()
def test_queries_with_key_lists_agree_with_the_reference(order, count, each):
    q, (k, v), mask = queries(count), cached(order), Listed(some_keys(count, each))
    assert gathered.is_faster_for(checked(q, k, v, mask, None, None, 0.0, None))
    torch.testing.assert_close(attend(q, k, v, mask=mask), attend(q, k, v, mask=mask, kernel="reference"))


@pytest.mark.parametrize("order", ["heads", "positions"])
@pytest.mark.parametrize("count", [3, 16])
@pytest.mark.parametrize("mask", [None, Lengths(torch.tensor([21, 1, 0, 5, 20, 2, 16, 15]))])
@torch.inference_mode()
def test_queries_that_share_their_keys_agree_with_the_reference(order, count, mask):
    q, (k, v) = queries(count), cached(order)
    assert gathered.is_faster_for(checked(q, k, v, mask, None, None, 0.0, None))
    torch.testing.assert_close(attend(q, k, v, mask=mask), attend(q, k, v, mask=mask, kernel="reference"))


@pytest.mark.parametrize("keys", [1, 2, 15, 16, 40])
@torch.inference_mode()
def test_a_decoding_step_attends_to_the_whole_cache(keys):
    (k, v), rows = cached("heads", keys), 3  # three times as many rows, so that there are enough
    q, k, v = queries(1).repeat(rows, 1, 1, 1), k.repeat(rows, 1, 1, 1), v.repeat(rows, 1, 1, 1)
    mask = Causal(offset=keys - 1)
    assert gathered.is_faster_for(checked(q, k, v, mask, None, None, 0.0, None))
    torch.testing.assert_close(attend(q, k, v, mask=mask), attend(q, k, v, mask=mask, kernel="reference"))


@torch.inference_mode()
def test_a_hypothesis_among_others_gets_bitwise_what_it_gets_alone():
    keys = some_keys(4, 9)
    q, (k, v) = queries(4), cached("positions")
    together = attend(q, k, v, mask=Listed(keys))
    rows = torch.arange(ROWS).unsqueeze(1)
    for line in range(4):
        own_k, own_v = (x.transpose(1, 2)[rows, keys[:, line]].transpose(1, 2).repeat(3, 1, 1, 1) for x in (k, v))
        alone = attend(q[:, :, line : line + 1].repeat(3, 1, 1, 1), own_k, own_v)
        assert torch.equal(alone[:ROWS], together[:, :, line : line + 1])


def is_faster(q: Tensor, k: Tensor, v: Tensor, mask: Mask | None = None) -> bool:
    return gathered.is_faster_for(checked(q, k, v, mask, None, None, 0.0, None))


def test_inputs_for_which_it_is_not_used():
    q, (k, v) = queries(4), cached("heads")
    assert not is_faster(q, k, v)  # gradients may be needed
    with torch.inference_mode():
        assert is_faster(q, k, v)
        assert not is_faster(q[:1], k[:1], v[:1])  # too few
        assert not is_faster(q.double(), k.double(), v.double())
        assert not is_faster(q, k[:, :2], v[:, :2])  # heads that share keys
        assert not is_faster(q, k, v.clone())  # another memory layout
        assert not is_faster(q, k, v, Causal(offset=3))
        empty = Listed(torch.zeros(ROWS, 4, 0, dtype=torch.long))
        assert not is_faster(q, k, v, empty)
        assert torch.equal(attend(q, k, v, mask=empty), torch.zeros_like(q))


def test_a_list_as_a_mask():
    mask = Listed(torch.tensor([[[0, 2], [3, 1]]]))
    assert mask.show(2, 4) == "■ · ■ ·\n· ■ · ■"
    with pytest.raises(ShapeError, match=r"\(1, 2, 2\), the call needs \(8, 4, any number\)"):
        attend(queries(4), *cached("heads"), mask=mask)


def test_torchs_warning_about_sparse_tensors_is_suppressed():
    gathered.is_available.cache_clear()
    with warnings.catch_warnings(), torch.inference_mode():
        warnings.simplefilter("error")
        assert attend(queries(4), *cached("heads")).isfinite().all()


def test_the_preferred_layout_of_a_cache_is_the_one_that_the_kernel_reads():
    for rows, heads in ((12, 8), (24, 4), (96, 1)):
        assert gathered.preferred_layout(rows, heads) == "positions"
        assert gathered.preferred_layout(rows - 1, heads) == "heads"
