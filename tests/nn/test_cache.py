"""The decoder's memory: buffers that grow, are written anywhere, and follow a beam."""

import pytest
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from headway.nn.cache import KVBuffers, KVCache
from headway.nn.positions import Rotary
from headway.nn.stack import Stack
from headway.ops import Causal
from tests.nn.tiny import CAUSAL, WIDTH, tiny_stack

ROWS, GROUPS, HEAD = 3, 2, 4


def pieces(*counts: int) -> list[tuple[Tensor, Tensor]]:
    """Keys and values for as many tokens."""
    return [(torch.randn(ROWS, GROUPS, count, HEAD), torch.randn(ROWS, GROUPS, count, HEAD)) for count in counts]


@pytest.mark.parametrize("capacity", [1, 2, 5, 64])
def test_a_cache_that_grows_keeps_what_it_holds(capacity):
    cache, written = KVBuffers(capacity), pieces(3, 1, 1, 6, 2)
    used = 0
    for number, (k, v) in enumerate(written):
        keys, values = cache.write(k, v, used, used)
        used += k.shape[2]
        assert torch.equal(keys, torch.cat([k for k, _ in written[: number + 1]], 2))
        assert torch.equal(values, torch.cat([v for _, v in written[: number + 1]], 2))
    assert cache.k is not None
    assert cache.k.shape[2] == cache.capacity >= used


def test_a_full_buffer_doubles_and_a_large_one_stays():
    cache = KVBuffers(4)
    ((k, v),) = pieces(4)
    cache.write(k, v, 0, 0)
    kept = cache.k
    assert cache.capacity == 4
    ((k, v),) = pieces(1)
    cache.write(k, v, 4, 4)
    assert cache.capacity == 8
    grown = cache.k
    assert grown is not kept
    cache.write(k, v, 5, 5)
    assert cache.k is grown  # written in place


@pytest.mark.parametrize("at", [0, 2, 5])
def test_a_write_at_a_number_is_a_write_at_a_tensor_of_it(at):
    one, each, scalar = KVBuffers(8), KVBuffers(8), KVBuffers(8)
    before, after = pieces(5, 2)
    for cache in (one, each, scalar):
        cache.write(*before, 0, 0)
    expected = one.write(*after, at, 5)
    for cache, place in ((each, torch.full((ROWS,), at)), (scalar, torch.tensor(at))):
        for got, want in zip(cache.write(*after, place, 5), expected, strict=True):
            assert torch.equal(got, want)


def test_each_row_may_be_written_at_its_own_place():
    cache = KVBuffers(8)
    (before, after), starts = pieces(4, 2), [4, 1, 3]
    cache.write(*before, 0, 0)
    keys, _ = cache.write(*after, torch.tensor(starts), 4)
    for row, start in enumerate(starts):
        expected = torch.cat([before[0][row], torch.zeros(GROUPS, 2, HEAD)], 1)
        expected[:, start : start + 2] = after[0][row]
        assert torch.equal(keys[row], expected)


def test_slots_that_were_never_written_are_zero_not_garbage():
    """A weight of 0 times NaN would still be NaN."""
    cache = KVBuffers(4)
    ((k, v),) = pieces(2)
    keys, values = cache.write(k, v, torch.tensor([0, 3, 1]), 6)
    assert keys.isfinite().all()
    assert values.isfinite().all()
    assert torch.equal(keys[0, :, 2:], torch.zeros(GROUPS, 6, HEAD))


@pytest.mark.filterwarnings("error")  # torch warns when it has to resize an output
@pytest.mark.parametrize("rows", [[2, 0, 1], [1, 1, 1], [0, 2], [2], [0, 0, 1, 1, 2, 2]])
def test_select_reorders_repeats_and_shrinks(rows):
    cache, chosen = KVBuffers(2), torch.tensor(rows)
    first, second, third = pieces(3, 1, 4)
    cache.write(*first, 0, 0)
    cache.select(chosen)
    keys, values = cache.write(*(part[chosen] for part in second), 3, 3)
    assert torch.equal(keys, torch.cat([first[0], second[0]], 2)[chosen])
    assert torch.equal(values, torch.cat([first[1], second[1]], 2)[chosen])
    again = torch.arange(len(rows)).flip(0)
    cache.select(again)  # through the second buffer, then growing, then through a new second buffer
    keys, values = cache.write(*(part[chosen][again] for part in third), 4, 4)
    assert torch.equal(keys, torch.cat([first[0], second[0], third[0]], 2)[chosen][again])
    assert torch.equal(values, torch.cat([first[1], second[1], third[1]], 2)[chosen][again])
    cache.select(again)
    assert cache.k is not None
    assert torch.equal(cache.k[:, :, :8], torch.cat([first[0], second[0], third[0]], 2)[chosen])


def test_selecting_the_same_number_of_rows_allocates_once():
    cache = KVBuffers(8)
    cache.write(*pieces(3)[0], 0, 0)
    addresses = set()
    for _ in range(6):
        cache.select(torch.tensor([1, 0, 2]))
        assert cache.k is not None
        addresses.add(cache.k.data_ptr())
    assert len(addresses) == 2


def test_selecting_from_an_empty_cache_is_nothing():
    cache = KVCache.empty(2, 4).select(torch.tensor([0, 0, 1]))
    assert cache.length == cache.used == 0
    assert all(layer.k is None and layer.v is None for layer in cache.layers)


def test_a_cache_counts_what_it_has_seen():
    cache = KVCache.empty(1, 4).advanced(3)
    assert (cache.length, cache.used) == (3, 3)
    ragged = cache.advanced(4, torch.tensor([1, 4, 2]))
    assert torch.equal(ragged.length, torch.tensor([4, 7, 5]))
    assert ragged.used == 7
    selected = ragged.select(torch.tensor([2, 2, 0]))
    assert torch.equal(selected.length, torch.tensor([5, 5, 4]))
    assert torch.equal(selected.advanced(1).length, torch.tensor([6, 6, 5]))


def test_a_cache_holds_no_graph():
    cache = KVBuffers(4)
    k = torch.randn(ROWS, GROUPS, 2, HEAD, requires_grad=True)
    keys, values = cache.write(k, 2 * k, 0, 0)
    assert not keys.requires_grad
    assert not values.requires_grad


# --- rows of a stack -----------------------------------------------------------------------------------------------


def step(stack: Stack, x: Tensor, cache: KVCache) -> tuple[Tensor, KVCache]:
    cache = cache.ready(x.shape[1])
    out = stack(x, mask=Causal(offset=cache.length), cache=cache)
    return out, cache.advanced(x.shape[1])


@pytest.mark.parametrize("position", [None, *CAUSAL])
@torch.no_grad()
def test_rows_that_are_reordered_repeated_and_dropped_go_on_as_if_read_anew(position):
    stack = tiny_stack(CAUSAL[position] if position else None, causal=True)
    text = torch.randn(3, 4, WIDTH, dtype=torch.float64)
    _, cache = step(stack, text, stack.empty_cache(2))
    for rows in ([2, 2, 0], [1, 0, 2, 1, 0], [4, 1]):
        chosen = torch.tensor(rows)
        cache = cache.select(chosen)
        new = torch.randn(len(rows), 1, WIDTH, dtype=torch.float64)
        text = torch.cat([text[chosen], new], 1)
        out, cache = step(stack, new, cache)
        torch.testing.assert_close(out, stack(text, mask=Causal())[:, -1:], rtol=1e-10, atol=1e-10)


@torch.no_grad()
def test_rows_of_different_lengths_keep_them_through_a_selection():
    stack = tiny_stack(Rotary(), causal=True)
    texts = [torch.randn(count, WIDTH, dtype=torch.float64) for count in (2, 4, 3)]
    padded = pad_sequence(texts, batch_first=True)
    cache = stack.empty_cache(4)
    stack(padded, mask=Causal(offset=cache.length), cache=cache)
    cache = cache.advanced(4, torch.tensor([2, 4, 3])).select(torch.tensor([2, 0, 0]))
    new = torch.randn(3, 1, WIDTH, dtype=torch.float64)
    out, _ = step(stack, new, cache)
    for row, source in enumerate([2, 0, 0]):
        whole = torch.cat([texts[source], new[row]]).unsqueeze(0)
        torch.testing.assert_close(out[row], stack(whole, mask=Causal())[0, -1:], rtol=1e-10, atol=1e-10)
