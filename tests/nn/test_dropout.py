from __future__ import annotations

import pytest
import torch

from headway.nn.dropout import LEVELS, Dropout


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
