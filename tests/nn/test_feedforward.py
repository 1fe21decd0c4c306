"""The feed-forward network: its fused forms give what the plain ones do, and its weights keep their names."""

from __future__ import annotations

from typing import get_args

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headway.nn.feedforward import Activation, FeedForward, FeedForwardConfig, activation_function
from headway.nn.linear import linear_gelu, linear_gelu_tanh, linear_relu


class Wrapped(nn.Module):
    """Another module in place of the up-projection."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.inner(x)
        return out


def network(**changes: object) -> FeedForward:
    torch.manual_seed(0)
    return FeedForward(8, FeedForwardConfig(inner=12, **changes)).eval()  # type: ignore[arg-type]


@pytest.mark.parametrize("wrapped", [False, True])
@pytest.mark.parametrize("activation", get_args(Activation))
def test_fused_or_not_it_is_down_of_activation_of_up(activation, wrapped):
    made, x = network(activation=activation), torch.randn(2, 5, 8)
    up, function = made.up(x), activation_function(activation)
    want = made.down(function(up.chunk(2, -1)[0]) * up.chunk(2, -1)[1] if made.gated else function(up))
    if wrapped:
        made.up = Wrapped(made.up)
    assert torch.equal(made(x), want)
    with torch.no_grad():
        assert torch.equal(made(x), want)


def test_what_is_fused_is_decided_when_it_is_built():
    fused = {name: network(activation=name).fused for name in get_args(Activation)}
    assert fused.pop("relu") is linear_relu
    assert fused.pop("gelu") is linear_gelu
    assert fused.pop("gelu_tanh") is linear_gelu_tanh
    assert set(fused.values()) == {None}
    assert network(activation="gelu", dropout=0.1).fused is None


def test_the_weights_of_neighbours_keep_their_key():
    """Weights files have them as `taps`."""
    made = network(neighbours=1)
    assert made.neighbour_weights is made.state_dict(keep_vars=True)["taps"]
    assert next(name for name, _ in made.named_parameters()) == "taps"
    assert network().neighbour_weights is None
    assert "taps" not in network().state_dict()
    other = network(neighbours=1)
    other.load_state_dict({**other.state_dict(), "taps": torch.full((3, 8), 0.5)})
    assert torch.equal(other.neighbour_weights, torch.full((3, 8), 0.5))


@torch.no_grad()
def test_neighbours_are_a_depthwise_convolution_that_leaves_padding_out():
    made, x, real = network(neighbours=2), torch.randn(2, 6, 8), torch.arange(6) < torch.tensor([[6], [4]])
    kernel = made.neighbour_weights.mT.unsqueeze(1)
    near = F.conv1d((x * real.unsqueeze(-1)).mT, kernel, padding=2, groups=8).mT
    torch.testing.assert_close(made(x, real), made.down(F.relu(made.up(x + near))))
