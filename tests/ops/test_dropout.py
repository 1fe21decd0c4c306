"""Dropout of attention weights: from a stream of its own or torch's, at its rate, with the mean kept."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from headway.ops import Window, attend, attention_weights
from tests.ops.cases import HEADS, WITH_GRADIENT, qkv


def dropped(kernel: str, seed: int | None, rate: float = 0.3, **sizes) -> Tensor:
    q, k, v = (x.detach() for x in fixed_qkv(**sizes))
    generator = None if seed is None else torch.Generator().manual_seed(seed)
    return attend(q, k, v, mask=Window(6), dropout=rate, generator=generator, kernel=kernel)


def fixed_qkv(**sizes) -> tuple[Tensor, Tensor, Tensor]:
    stream = torch.Generator().manual_seed(5)
    return qkv(**sizes, generator=stream)


@pytest.mark.parametrize("kernel", WITH_GRADIENT)
def test_dropout_is_bitwise_repeatable_from_a_seed(kernel):
    assert torch.equal(dropped(kernel, seed=1), dropped(kernel, seed=1))
    assert not torch.equal(dropped(kernel, seed=1), dropped(kernel, seed=2))


@pytest.mark.parametrize("kernel", WITH_GRADIENT)
def test_dropout_draws_on_from_its_generator(kernel):
    q, k, v = fixed_qkv()
    stream = torch.Generator().manual_seed(1)
    first, second = (attend(q, k, v, mask=Window(6), dropout=0.3, generator=stream, kernel=kernel) for _ in range(2))
    assert not torch.equal(first, second)


@pytest.mark.parametrize("kernel", WITH_GRADIENT)
def test_dropout_with_a_generator_leaves_the_global_stream_alone(kernel):
    before = torch.get_rng_state()
    dropped(kernel, seed=1)
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.parametrize("kernel", WITH_GRADIENT)
def test_dropout_without_a_generator_follows_the_global_seed(kernel):
    torch.manual_seed(3)
    once = dropped(kernel, seed=None)
    torch.manual_seed(3)
    assert torch.equal(once, dropped(kernel, seed=None))
    assert not torch.equal(once, dropped(kernel, seed=None))


def test_the_global_stream_is_given_back_when_sdpa_fails(monkeypatch):
    def broken(*arguments, **options):
        torch.rand(3)
        raise RuntimeError("boom")

    monkeypatch.setattr(F, "scaled_dot_product_attention", broken)
    before = torch.get_rng_state()
    with pytest.raises(RuntimeError, match="boom"):
        dropped("sdpa", seed=1)
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.parametrize("kernel", WITH_GRADIENT)
def test_dropout_keeps_the_mean(kernel):
    q, k, v = fixed_qkv(rows=1)
    rows = 4000  # many draws at once: one per row
    generator = torch.Generator().manual_seed(1)
    q, k, v = (x.expand(rows, -1, -1, -1) for x in (q, k, v))
    out = attend(q, k, v, mask=Window(6), dropout=0.3, generator=generator, kernel=kernel)
    want = attend(q[:1], k[:1], v[:1], mask=Window(6), kernel="reference")
    standard_error = out.std(0) / rows**0.5
    assert ((out.mean(0) - want[0]).abs() <= 5 * standard_error).all()


@pytest.mark.parametrize("kernel", WITH_GRADIENT)
def test_dropout_zeroes_weights_at_its_rate_and_enlarges_the_rest(kernel):
    q, k, _ = fixed_qkv(rows=8, queries=16, keys=16)
    eye = torch.eye(16).expand(8, HEADS, 16, 16)  # with these values the output is the weights
    stream = torch.Generator().manual_seed(1)
    got = attend(q, k, eye, mask=Window(15), dropout=0.3, generator=stream, kernel=kernel)
    want = attention_weights(q, k) / 0.7
    lost = got == 0
    rate, spread = lost.double().mean().item(), math.sqrt(0.3 * 0.7 / lost.numel())
    assert abs(rate - 0.3) < 5 * spread
    torch.testing.assert_close(got[~lost], want[~lost])
