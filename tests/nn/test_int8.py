from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from headway.models import EncoderDecoderConfig, EncoderInput, GptConfig, build_model
from headway.nn import int8
from headway.nn.int8 import Int8Linear, quantise
from headway.nn.linear import FusedLinear

needs_engine = pytest.mark.skipif(not int8.supported(), reason="this torch or processor has no 8-bit product")


def weight(rows=48, columns=64, seed=0):
    return torch.randn(rows, columns, generator=torch.Generator().manual_seed(seed)) * 0.1


def test_weights_are_within_half_a_level_of_each_row_s_scale():
    w = weight() * torch.logspace(-3, 2, 48)[:, None]  # rows of very different size: a scale each
    layer = Int8Linear(w, None)
    assert layer.weight.dtype == torch.int8
    error = (layer.weight.float() * layer.scale[:, None] - w).abs()
    assert (error <= layer.scale[:, None] / 2 * 1.001).all()
    assert (layer.weight.abs().amax(1) == 127).all()


def test_a_row_of_zeros_stays_zero():
    layer = Int8Linear(torch.zeros(4, 8), torch.ones(4))
    torch.testing.assert_close(layer(torch.randn(3, 8)), torch.ones(3, 4))


@pytest.mark.parametrize("rows", [1, 3, 160, 400])
@pytest.mark.parametrize("bias", [True, False])
def test_the_product_is_near_the_exact_one(rows, bias):
    w, b, x = weight(), torch.randn(48) if bias else None, torch.randn(rows, 64)
    got, want = Int8Linear(w, b)(x), nn.functional.linear(x, w, b)
    assert got.dtype == torch.float32
    assert (got - want).norm() < 0.02 * want.norm()


@needs_engine
@torch.inference_mode()
def test_a_relu_is_part_of_the_product():
    layer, x = Int8Linear(weight(), torch.randn(48)), torch.randn(5, 64)
    assert torch.equal(layer.forward_relu(x), layer(x).relu())


@needs_engine
@torch.inference_mode()
def test_a_hook_sees_the_product_before_its_relu():
    layer, x, kept = Int8Linear(weight(), torch.randn(48)), torch.randn(5, 64), []
    want = layer.forward_relu(x)
    layer.register_forward_hook(lambda _, __, out: kept.append(out))
    assert torch.equal(layer.forward_relu(x), want)
    assert (kept[0] < 0).any()


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


@needs_engine
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory is read from /proc")
@torch.inference_mode()
def test_memory_does_not_grow_with_the_numbers_of_rows_met():
    layers = [Int8Linear(torch.randn(512, 512), None) for _ in range(8)]

    def meet(counts: range) -> None:
        for rows in counts:
            for layer in layers:
                layer(torch.randn(rows, 512))

    meet(range(160, 400, 30))
    before = resident()
    meet(range(161, 400, 3))
    assert resident() - before < 8 * 2**20


def test_without_an_engine_the_same_weights_are_multiplied_in_float32(monkeypatch):
    layer, x = Int8Linear(weight(), None), torch.randn(5, 64)
    monkeypatch.setattr(int8.layers, "supported", lambda: False)
    exact = x @ (layer.weight.float() * layer.scale[:, None]).T
    torch.testing.assert_close(layer(x), exact)
    torch.testing.assert_close(layer.forward_relu(x), exact.relu())


def test_every_linear_layer_is_swapped_and_names_stay():
    model = build_model(GptConfig(vocab=40, context=16, width=32, layers=2, heads=4, dropout=0.0)).eval()
    names = {name for name, part in model.named_modules() if isinstance(part, nn.Linear)}
    tokens = torch.randint(0, 40, (3, 9))
    exact = model(tokens)
    quantise(model)
    assert {name for name, part in model.named_modules() if isinstance(part, Int8Linear)} == {*names, "head"}
    assert not any(isinstance(part, nn.Linear | FusedLinear) for part in model.modules())
    assert (model(tokens) - exact).norm() < 0.1 * exact.norm()
    assert model.embedding.weight.dtype == torch.float32


def test_a_quantised_model_steps_as_it_reads():
    config = EncoderDecoderConfig(vocab=40, width=32, inner=64, heads=4, encoder_layers=2, decoder_layers=2)
    model = build_model(config).eval()
    quantise(model)
    source, target = EncoderInput(torch.randint(0, 40, (2, 6)), torch.tensor([6, 4])), torch.randint(0, 40, (2, 5))
    whole = model(source.tokens, target, source.lengths)
    state, steps = model.start(source), []
    for t in range(5):
        logits, state = model.extend(target[:, t : t + 1], state)
        steps.append(logits)
    # Inputs are scaled by the largest number of a call, and a step's call holds other numbers: near, not equal.
    assert (torch.cat(steps, 1) - whole).norm() < 0.1 * whole.norm()
