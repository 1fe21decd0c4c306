"""Which layers are plain, chosen by measured error: a tiny model without outliers, and one where they are planted."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from headway.models import GptConfig, build_model
from headway.nn import int8
from headway.nn.int8 import Int8Linear, LayerChoice, quantise
from headway.nn.int8.choice import choose, within
from headway.nn.int8.outliers import OutlierInt8Linear
from headway.nn.norms import RMSNorm
from headway.nn.positions import Rotary

pytestmark = pytest.mark.skipif(not int8.supported(), reason="this torch or processor has no 8-bit product")
TOKENS = torch.randint(0, 60, (4, 24), generator=torch.Generator().manual_seed(1))


def model(outliers: float = 0.0) -> nn.Module:
    """A Llama-like model; with outliers, its gated networks are fed some columns that are far larger than the others.

    The weights of these columns are as much smaller, so that in float32 the model computes the same.
    """
    config = GptConfig(
        vocab=60, context=32, width=64, layers=3, heads=4, inner=96, position=Rotary(), norm=RMSNorm(), bias=False,
        activation="swiglu", init_std=0.12,
    )  # fmt: skip
    built = build_model(config, seed=3).eval()
    if outliers:
        with torch.no_grad():
            for block in built.stack.blocks:
                for norm, layer in (
                    (block.attention_norm, block.attention.qkv),
                    (block.feedforward_norm, block.feedforward.up),
                ):
                    norm.weight[5:8] *= outliers
                    layer.weight[:, 5:8] /= outliers
    return built


def forward(network: nn.Module) -> torch.Tensor:
    return network(TOKENS).flatten(0, 1).log_softmax(-1)


def rise(exact: torch.Tensor, found: torch.Tensor) -> float:
    return math.expm1(float((exact.exp() * (exact - found)).sum(-1).mean()))


@torch.no_grad()
def plain_rise(network: nn.Module, outliers: float) -> float:
    exact = forward(network)
    plain = model(outliers)
    quantise(plain)
    return rise(exact, forward(plain))


def test_without_outliers_every_layer_is_plain():
    network = model()
    quick, choice = choose(network, forward, rise, 0.01)
    assert choice.layers == {}
    assert choice.rise < 0.01
    assert {type(part) for part in quick.modules() if isinstance(part, Int8Linear)} == {Int8Linear, int8.Int8Head}


def test_planted_outliers_cost_plain_layers_much_and_the_chosen_ones_little():
    """TRIALS B bug 1: SmolLM2's perplexity went from 34.9 to 66.8."""
    network = model(200.0)
    before = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    assert plain_rise(network, 200.0) > 0.05
    quick, choice = choose(network, forward, rise, 0.01)
    assert choice.rise < 0.01
    with torch.no_grad():
        assert rise(forward(network), forward(quick)) == pytest.approx(choice.rise)
    assert choice.layers
    assert "fp32" not in {layer.method for layer in choice.layers.values()}
    assert all(torch.equal(tensor, before[name]) for name, tensor in network.state_dict().items())
    again = choose(network, forward, rise, 0.01)[1]
    assert {name: layer.method for name, layer in again.layers.items()} == {
        name: layer.method for name, layer in choice.layers.items()
    }


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("rows", [1, 7])
@pytest.mark.parametrize(("method", "most"), [("rows", 0.06), ("smooth", 0.03), ("two-part", 0.012)])
@torch.inference_mode()
def test_each_method_is_as_exact_as_it_says(method, most, rows, bias):
    generator = torch.Generator().manual_seed(rows)
    weight, x = (torch.randn(n, 128, generator=generator) for n in (48, rows))
    x[0] *= 1000  # a row, as the first token of a text
    x[:, 7] *= 20  # a column
    peaks = (x / x.abs().amax(-1, keepdim=True)).abs().amax(0)
    shift = torch.randn(48, generator=generator) if bias else None
    layer = OutlierInt8Linear(weight, shift, (), LayerChoice(method, peaks))
    want = nn.functional.linear(x, weight, shift)
    assert ((layer(x) - want).norm(dim=-1) <= most * want.norm(dim=-1)).all()
    assert torch.equal(layer.forward_relu(x), layer(x).relu())
    shaped = layer(x.view(1, rows, 128))
    torch.testing.assert_close(shaped[0], layer(x))


@torch.inference_mode()
def test_a_row_does_not_depend_on_the_others():
    weight, x = torch.randn(16, 64), torch.randn(6, 64)
    for method in ("rows", "two-part"):
        layer = OutlierInt8Linear(weight, None, (), LayerChoice(method))
        other = torch.cat([x[:2], 1e4 * x[2:]])
        assert torch.equal(layer(x)[:2], layer(other)[:2])


@torch.inference_mode()
def test_a_row_of_zeros_stays_zero():
    for method in ("rows", "smooth", "two-part"):
        layer = OutlierInt8Linear(torch.randn(4, 8), torch.ones(4), (), LayerChoice(method, torch.ones(8)))
        torch.testing.assert_close(layer(torch.zeros(3, 8)), torch.ones(3, 4))


def test_a_layer_takes_the_fastest_method_within_the_bound():
    errors = {
        "a": {"plain": 0.01, "rows": 0.01, "smooth": 0.01, "two-part": 0.01},
        "b": {"plain": 0.9, "rows": 0.04, "smooth": 0.02, "two-part": 0.01},
        "c": {"plain": 0.9, "rows": 0.08, "smooth": 0.07, "two-part": 0.06},
        "faulty": {"plain": 0.9, "rows": 0.8, "smooth": 0.7, "two-part": 0.8},
    }
    assert within(errors, 0.05) == {"b": "rows", "c": "fp32", "faulty": "smooth"}
    assert within(errors, 0.02) == {"b": "smooth", "c": "fp32", "faulty": "smooth"}


def test_a_model_with_other_layers_steps_in_python():
    from headway.nn.int8.torchscript_step import steps_in_torchscript

    network = build_model(GptConfig(vocab=60, context=32, width=32, layers=2, heads=4)).eval()
    quantise(network, {"stack.blocks.0.feedforward.up": LayerChoice("rows")})
    with torch.no_grad():
        state = network.start()
        for _ in range(3):
            logits, state = network.extend(TOKENS[:, :1], state)
    assert logits.isfinite().all()
    assert not steps_in_torchscript(network)
