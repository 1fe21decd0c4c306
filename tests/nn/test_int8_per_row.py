"""8-bit layers with a scale for each row: independent of the other rows, and not further from the exact product."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from headway.nn.int8 import quantise
from headway.nn.int8.layers import Int8Linear
from headway.nn.int8.per_row import RowInt8Linear, scale_per_row


def layers(bias: bool) -> tuple[nn.Linear, Int8Linear, RowInt8Linear]:
    torch.manual_seed(0)
    exact = nn.Sequential(nn.Linear(48, 32, bias=bias)).requires_grad_(False)
    plain, per_row = (nn.Sequential(nn.Linear(48, 32, bias=bias)) for _ in range(2))
    for each in (plain, per_row):
        each.load_state_dict(exact.state_dict())
        quantise(each)
    scale_per_row(per_row)
    return exact[0], plain[0], per_row[0]  # type: ignore[return-value]


@pytest.mark.parametrize("bias", [True, False])
@torch.no_grad()
def test_a_row_is_the_same_in_every_batch(bias: bool) -> None:
    _, plain, per_row = layers(bias)
    x = torch.randn(9, 48) * torch.logspace(-2, 2, 9)[:, None]
    together = per_row(x)
    for count in range(1, 9):
        assert torch.equal(per_row(x[:count]), together[:count])
    assert not torch.equal(plain(x[:1]), plain(x)[:1])


@pytest.mark.parametrize("bias", [True, False])
@torch.no_grad()
def test_rows_of_unequal_size_are_nearer_to_the_exact_product(bias: bool) -> None:
    exact, plain, per_row = layers(bias)
    x = torch.randn(64, 48) * torch.logspace(-2, 0, 64)[:, None]
    error = {
        name: float(((layer(x) - exact(x)).norm(dim=1) / exact(x).norm(dim=1)).mean())
        for name, layer in (("plain", plain), ("per row", per_row))
    }
    assert error["per row"] < error["plain"]
    assert error["per row"] < 0.02


@torch.no_grad()
def test_relu_and_other_types() -> None:
    exact, _, per_row = layers(True)
    x = torch.randn(5, 48)
    assert torch.equal(per_row.forward_relu(x), per_row(x).relu())
    torch.testing.assert_close(per_row(x.double()).float(), exact(x), atol=0.05, rtol=0.05)
