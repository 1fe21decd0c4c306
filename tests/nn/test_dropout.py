from __future__ import annotations

import pytest
import torch

from headway.errors import ConfigError
from headway.nn.attention import AttentionConfig
from headway.nn.block import BlockConfig
from headway.nn.dropout import LEVELS, Dropout, DropPath, StochasticDepth
from headway.nn.stack import Stack, StackConfig


@pytest.mark.parametrize("p", [0.1, 0.3, 0.5, 0.9])
def test_share_scale_and_gradient(p):
    torch.manual_seed(0)
    x = torch.ones(400, 501, requires_grad=True)
    y = Dropout(p)(x)
    kept = y != 0
    met = round(p * LEVELS) / LEVELS
    count = x.numel()
    deviation = (met * (1 - met) / count) ** 0.5
    assert abs((~kept).float().mean().item() - met) < 4 * deviation
    torch.testing.assert_close(y[kept], torch.full_like(y[kept], 1 / (1 - met)))
    y.sum().backward()
    assert torch.equal(x.grad, y.detach())  # what was dropped learns nothing, what was kept is scaled


def test_neighbours_are_independent():
    torch.manual_seed(0)
    kept = (Dropout(0.5)(torch.ones(400_000)) != 0).float()
    for lag in (1, 2, 3, 4):
        together = (kept[:-lag] * kept[lag:]).mean().item()
        assert together == pytest.approx(0.25, abs=0.004)


def test_evaluation_and_zero_leave_everything():
    x = torch.randn(3, 5)
    assert Dropout(0.5).eval()(x) is x
    assert Dropout(0.0)(x) is x


@pytest.mark.parametrize("shape", [(0,), (1,), (3,), (2, 5, 7)])
def test_any_number_of_elements(shape):
    assert Dropout(0.5)(torch.ones(shape)).shape == shape


def test_it_draws_from_torchs_stream():
    torch.manual_seed(7)
    first = Dropout(0.5)(torch.ones(100))
    again = Dropout(0.5)(torch.ones(100))
    torch.manual_seed(7)
    assert torch.equal(first, Dropout(0.5)(torch.ones(100)))
    assert not torch.equal(first, again)


def test_bfloat16_stays_bfloat16():
    assert Dropout(0.5)(torch.ones(8, dtype=torch.bfloat16)).dtype == torch.bfloat16


@pytest.mark.parametrize("p", [0.1, 0.5])
def test_a_dropped_path_is_gone_for_a_whole_sample_and_right_on_average(p):
    torch.manual_seed(0)
    x = torch.randn(20_000, 3, 2, requires_grad=True)
    y = DropPath(p)(x)
    kept = y[:, 0, 0] != 0
    assert abs((~kept).float().mean().item() - p) < 4 * (p * (1 - p) / len(x)) ** 0.5
    assert not y[~kept].any()
    torch.testing.assert_close(y[kept], x[kept] / (1 - p))
    (gradient,) = torch.autograd.grad(y.sum(), x)
    torch.testing.assert_close(gradient, kept.float().view(-1, 1, 1).expand_as(x) / (1 - p))
    scale = DropPath(p)(torch.ones(200_000, 1, dtype=torch.bfloat16)).float()
    assert scale.mean().item() == pytest.approx(1.0, abs=0.01)  # bfloat16 steps by 1/128 here


def test_no_path_is_dropped_when_evaluating_or_at_zero():
    x = torch.randn(4, 3, 2)
    assert DropPath(0.5).eval()(x) is x
    assert DropPath(0.0)(x) is x


def test_rates_grow_with_depth_or_are_alike():
    assert StochasticDepth(rate=0.3).rates(4) == pytest.approx([0.0, 0.1, 0.2, 0.3])
    assert StochasticDepth(rate=0.3, growth="constant").rates(3) == [0.3, 0.3, 0.3]
    assert StochasticDepth(rate=0.3).rates(1) == [0.3]
    assert StochasticDepth(rate=0.3).rates(0) == []
    with pytest.raises(ConfigError, match=r"rate=1\.0, allowed: at least 0 and below 1"):
        StochasticDepth(rate=1.0)
    with pytest.raises(ConfigError, match="growth='square', allowed: linear, constant"):
        StochasticDepth(growth="square")


def test_a_stack_drops_paths_and_on_average_adds_what_it_adds_without():
    def built(rate: float, residual: str = "residual") -> Stack:
        block = BlockConfig(
            attention=AttentionConfig(width=4, heads=1), feedforward=None, norm=None, place="pre", residual=residual
        )
        torch.manual_seed(0)
        depth = StochasticDepth(rate=rate)
        return Stack(StackConfig(layers=1, block=block, context=3, stochastic_depth=depth))

    assert built(0.0).blocks[0].drop_path is None  # what is off costs nothing
    x = torch.randn(1, 3, 4).expand(40_000, -1, -1)
    sure, unsure = built(0.0)(x[:1]) - x[:1], built(0.25)(x) - x
    torch.testing.assert_close(unsure.mean(0), sure[0], atol=0.01, rtol=0.02)
    assert ((unsure == 0).all(2).all(1)).float().mean().item() == pytest.approx(0.25, abs=0.01)
    with pytest.raises(ConfigError, match="a dropped sample would be all zeros"):
        built(0.25, residual="none")
