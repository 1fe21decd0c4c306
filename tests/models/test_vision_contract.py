"""The contract of every model that reads images."""

from __future__ import annotations

from copy import deepcopy

import pytest
import torch

from headway.config import parse, plain
from headway.errors import ShapeError
from headway.models import build_model
from tests.models.tiny import VISION, build
from tests.weights import load_weights, save_weights

everything = pytest.mark.parametrize("name", VISION)


def images(rows: int = 3, *, seed: int = 0) -> torch.Tensor:
    return torch.randn(rows, 3, 8, 12, generator=torch.Generator().manual_seed(seed))


@everything
def test_shapes(name):
    model = build(name)
    assert model(images()).shape == (3, 5)
    features = model.features(images())
    assert features.shape[0] == 3
    assert features.shape[2] == model.head.in_features
    assert features.shape[1] == {"convnet": 24, "vit-mean": 6}.get(name, 7)
    assert model(images(0)).shape == (0, 5)


@everything
def test_backward_reaches_every_parameter(name):
    model = build(name).train()
    (model(images(4)) ** 2).sum().backward()
    unreached = [key for key, p in model.named_parameters() if p.grad is None or not p.grad.abs().sum() > 0]
    assert not unreached


@everything
def test_batch_mates_change_nothing(name):
    model, batch = build(name), images()
    together = model(batch)
    for row in range(3):
        torch.testing.assert_close(together[[row]], model(batch[[row]]), atol=1e-5, rtol=0)


@everything
def test_every_pixel_counts(name):
    model, batch = build(name), images(1).requires_grad_()
    (gradient,) = torch.autograd.grad(model(batch).square().sum(), batch)
    assert (gradient.abs().sum(1) > 0).all()


@everything
def test_a_mirrored_image_is_another(name):
    model, batch = build(name), images()
    assert (model(batch) - model(batch.flip(3))).abs().max() > 1e-4


@everything
def test_same_seed_same_result_bitwise(name):
    outer = torch.get_rng_state()
    first, again, other = (build_model(VISION[name], seed=seed).eval() for seed in (3, 3, 4))
    assert torch.equal(outer, torch.get_rng_state())
    assert torch.equal(first.features(images()), again.features(images()))
    assert torch.equal(first(images()), again(images()))
    assert not torch.equal(first.features(images()), other.features(images()))


@everything
def test_weights_survive_save_and_load(name, tmp_path):
    model = build(name)
    save_weights(model, tmp_path / "model.safetensors")
    fresh = build_model(VISION[name], seed=9).eval()
    load_weights(fresh, tmp_path / "model.safetensors")
    assert torch.equal(model(images()), fresh(images()))


@everything
def test_a_config_survives_plain_data(name):
    assert parse(type(VISION[name]), plain(VISION[name])) == VISION[name]


@everything
def test_images_of_another_kind_are_refused(name):
    model = build(name)
    with pytest.raises(ShapeError, match=r"shape \(2, 1, 8, 12\), expected \(B, 3, height, width\)"):
        model(torch.zeros(2, 1, 8, 12))
    with pytest.raises(ShapeError, match=r"torch.uint8"):
        model(torch.zeros(2, 3, 8, 12, dtype=torch.uint8))


@everything
def test_it_compiles_as_one_graph(name):
    """In training too: nothing in it looks at a value. A backend that only records is enough to see that."""
    model = build(name).train()
    torch._dynamo.reset()
    logits = torch.compile(model, backend="eager", fullgraph=True)(images())
    assert logits.shape == (3, 5)
    model.eval()
    torch.testing.assert_close(torch.compile(model, backend="eager", fullgraph=True)(images()), model(images()))


@everything
def test_a_new_model_is_not_sure_of_itself(name):
    logits = build_model(VISION[name]).eval()(images())
    assert -logits.log_softmax(-1).mean() < 3 * torch.tensor(5).log()


@everything
def test_it_trains_in_mixed_precision(name):
    model = build(name).train()
    with torch.autocast("cpu", torch.bfloat16):
        logits = model(images())
        assert (logits - model(images())).isfinite().all()
    logits.float().square().sum().backward()
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters())


@everything
def test_a_copy_is_its_own(name):
    model = build(name)
    expected = model(images())
    copy = deepcopy(model)
    with torch.no_grad():
        copy.head.bias += 1.0
    assert torch.equal(model(images()), expected)
    torch.testing.assert_close(copy(images()), expected + 1.0)
