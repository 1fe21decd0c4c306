"""`flash_torch` agrees with the reference to 1e-12 for every tile, and moves the bytes of docs/flash_traffic.py."""

from itertools import product

import pytest
import torch
from docs.flash_traffic import naive_traffic, tiled_traffic

from headway.errors import KernelError
from headway.ops import Alibi, Causal, Lengths, Window, alibi_slopes, attend
from headway.ops.kernels import flash_torch, reference
from headway.ops.kernels.base import AttentionInputs
from headway.ops.kernels.flash_torch import TileSize
from tests.ops.cases import (
    BIASES,
    EVERYTHING,
    HEADS,
    MASKS,
    PAIRS,
    Case,
    Sizes,
    assert_same,
    case,
    join,
    leaves,
    picker,
    with_gradients,
)

EXACT = 1e-12
TILES = (
    TileSize(4, 3),
    TileSize(16, 16),
    TileSize(1, 64),
    TileSize(64, 1),
    TileSize(7, 5),
)  # none but 1 divides 19 and 21


def answer(one: Case, run, scale: float | None = None) -> dict[str, torch.Tensor]:
    at = leaves(one, torch.float64, gradients=True)
    bias = one.term.build(at["bias"]) if "bias" in at else None
    scale = one.sizes.width**-0.5 if scale is None else scale
    call = AttentionInputs(at["q"], at["k"], at["v"], one.rule.mask, bias, scale)
    return with_gradients(run(call), one.probe, at)


def agree(one: Case, tile: TileSize) -> None:
    assert_same(answer(one, lambda call: flash_torch.run(call, tile)), answer(one, reference.run), EXACT)


def sizes(seed: int) -> Sizes:
    return Sizes(queries=(5, 19)[seed % 2], keys=21, groups=(1, 2, 4)[seed % 3], value_width=(3, 4)[seed % 2])


@pytest.mark.parametrize(("name", "bias"), list(product(["everything", *MASKS], BIASES)))
def test_every_mask_and_bias(name, bias):
    seed = [*MASKS, "everything"].index(name)
    pick, n = picker(seed), sizes(seed)
    rule = EVERYTHING if name == "everything" else MASKS[name](pick, n)
    agree(case(pick, n, rule, bias), TILES[(seed + len(bias)) % len(TILES)])


@pytest.mark.parametrize(("a", "sign", "b"), PAIRS[::3])
def test_pairs_of_masks(a, sign, b):
    seed = PAIRS.index((a, sign, b))
    pick, n = picker(seed), Sizes(queries=7, keys=11, groups=(1, 2, 4)[seed % 3])
    rule = join(MASKS[a](pick, n), sign, MASKS[b](pick, n))
    agree(case(pick, n, rule, list(BIASES)[seed % len(BIASES)]), TILES[seed % len(TILES)])


@pytest.mark.parametrize("tile", TILES)
def test_every_tile(tile):
    pick, n = picker(3), Sizes(queries=19, keys=21)
    agree(case(pick, n, MASKS["causal"](pick, n), "alibi"), tile)


@pytest.mark.parametrize("tile", TILES)
def test_logits_of_ten_thousand(tile):
    pick, n = picker(4), Sizes(queries=19, keys=21)
    one = case(pick, n, MASKS["causal"](pick, n))
    scale = 1e4 / (one.q @ one.k.repeat_interleave(2, 1).mT).abs().max().item()
    got, want = (answer(one, run, scale) for run in (lambda call: flash_torch.run(call, tile), reference.run))
    for grads in (got, want):  # which have the scale as a factor
        grads["dq"], grads["dk"] = grads["dq"] / scale, grads["dk"] / scale
    assert_same(got, want, EXACT)


def test_a_query_without_an_allowed_key_gets_zeros_and_an_infinite_logarithm():
    q, k, v = (torch.randn(2, HEADS, 9, 4, dtype=torch.float64, requires_grad=True) for _ in range(3))
    mask = Causal(offset=-3) & Lengths(torch.tensor([9, 0]))
    out, lse = flash_torch.attend_with_lse(AttentionInputs(q, k, v, mask, None, 0.5), TileSize(4, 2))
    assert out[0, :, :3].eq(0).all()
    assert out[1].eq(0).all()
    assert lse[1].eq(-torch.inf).all()
    out.sum().backward()
    assert all(x.grad.isfinite().all() for x in (q, k, v))
    assert q.grad[1].eq(0).all()


def test_the_logarithm_of_the_denominator_and_its_gradient():
    q, k, v = (torch.randn(1, 2, 9, 4, dtype=torch.float64, requires_grad=True) for _ in range(3))
    bias = Alibi(alibi_slopes(2).double())
    _, lse = flash_torch.attend_with_lse(AttentionInputs(q, k, v, Causal(), bias, 0.5), TileSize(4, 2))
    scores = 0.5 * q @ k.mT + bias.dense(1, 2, 9, 9, q.device)
    want = scores.masked_fill(~Causal().dense(9, 9), -torch.inf).logsumexp(-1)
    torch.testing.assert_close(lse, want, rtol=0, atol=EXACT)
    probe = torch.randn_like(lse)
    for got, expected in zip(
        torch.autograd.grad(lse, (q, k), probe), torch.autograd.grad(want, (q, k), probe), strict=True
    ):
        torch.testing.assert_close(got, expected, rtol=0, atol=EXACT)


def test_attend_runs_it_and_dropout_raises():
    q = torch.randn(1, 2, 70, 4)
    torch.testing.assert_close(attend(q, q, q, kernel="tiled"), attend(q, q, q, kernel="reference"))
    with pytest.raises(KernelError, match="tiled does not support dropout"):
        attend(q, q, q, dropout=0.1, kernel="tiled")


# --- bytes ---


def test_bytes_by_hand():
    # 2 queries, 3 keys, 1 feature, numbers of 2 bytes. Formula: Q 2, K 3, S 6 written, read, P 6 written, read, V 3,
    # O 2 are 34 numbers; backwards 7·6 and dO, V, K, Q read and dV, dQ, dK written, dO twice: 42 + 4·5.
    naive = naive_traffic(2, 3, 1)
    assert (naive.forward, naive.backward) == (2 * 34, 2 * (42 + 20))
    # Tiles of 1 query and 2 keys. Forwards each query reads 3 keys and 3 values: 2·(2 + 2·6 + 2) and L, 2·4.
    # Backwards D: O, dO read, 4 bytes written; keys: K, V read once, dK, dV written, for both tiles of keys Q, dO, L, D
    # of both queries; queries: Q, dO, L, D once, K and V twice, dQ.
    by_tiles = tiled_traffic(2, 3, 1, tile=(1, 2))
    assert by_tiles.forward == 2 * 16 + 8
    assert by_tiles.backward == (8 + 8) + (2 * 12 + 2 * (2 * 4 + 16)) + (8 + 16 + 2 * 12 + 4)
    assert by_tiles.total == by_tiles.forward + by_tiles.backward
    assert tiled_traffic(2, 3, 1, tile=(1, 2), heads=5).forward == 5 * by_tiles.forward


@pytest.mark.parametrize("mask", [None, Causal(), Window(3), Window(0, offset=50)])
@pytest.mark.parametrize("tile", [TileSize(4, 3), TileSize(8, 16)])
def test_bytes_are_those_the_kernel_reads_and_writes(mask, tile, monkeypatch):
    moved = []

    def read(x, span, own=flash_torch.read):
        moved.append(x[:, :, span].numel() * x.element_size())
        return own(x, span)

    def write(x, span, value, own=flash_torch.write):
        moved.append(x[:, :, span].numel() * x.element_size())
        own(x, span, value)

    monkeypatch.setattr(flash_torch, "read", read)
    monkeypatch.setattr(flash_torch, "write", write)
    q, k, v = (torch.randn(1, 1, n, 8, requires_grad=True) for n in (19, 21, 21))
    out = flash_torch.run(AttentionInputs(q, k, v, mask, None, 0.5), tile)
    said = tiled_traffic(19, 21, 8, tile=tile, mask=mask, number=4)
    assert sum(moved) == said.forward
    moved.clear()
    out.sum().backward()
    products = 2 * 4 * 19 * 8 + 4 * 19  # D is one line of torch
    assert sum(moved) + products == said.backward


def test_tiles_move_less_the_larger_they_are_and_a_window_less_still():
    naive = naive_traffic(1024, 1024, 64).total
    small, large = (tiled_traffic(1024, 1024, 64, tile=(n, n)).total for n in (64, 256))
    assert large < small < naive
    assert tiled_traffic(1024, 1024, 64, mask=Window(64)).total < small / 3
