from __future__ import annotations

import math

import pytest
import torch

from headway.errors import ConfigError
from headway.models import DetrConfig, VitConfig, build_model
from headway.models.detr import grid_points, sinusoids
from headway.nn.patches import Hybrid, Patches
from headway.ops.boxes import to_corners

SMALL = {
    "classes": 3, "queries": 6, "image": (32, 24), "patch": 8, "patches": Patches(), "width": 16, "encoder_layers": 1,
    "decoder_layers": 2, "heads": 2, "inner": 32, "dropout": 0.0,
}  # fmt: skip


def images(count: int = 2, seed: int = 0) -> torch.Tensor:
    return torch.randn(count, 3, 32, 24, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("patches", [Patches(), Hybrid(widths=(4, 8, 12))])
def test_each_query_has_logits_and_a_box(patches):
    model = build_model(DetrConfig(**{**SMALL, "patches": patches}))
    logits, boxes = model(images())
    assert logits.shape == (2, 6, 4)
    assert boxes.shape == (2, 6, 4)
    assert ((boxes > 0) & (boxes < 1)).all()
    patch_logits, patch_boxes = model.predict_patches(model.features_by_layer(images())[0])
    assert (patch_logits.shape, patch_boxes.shape) == ((2, 12, 4), (2, 12, 4))


def test_backward_reaches_every_parameter():
    model = build_model(DetrConfig(**SMALL))
    torch.nn.init.normal_(model.box_head[-1].weight)  # which begins as 0
    logits, boxes = model(images())
    (logits.square().sum() + boxes.square().sum()).backward()
    assert [name for name, each in model.named_parameters() if each.grad is None or not each.grad.any()] == []


def test_before_training_every_query_has_its_anchor_and_no_object():
    model = build_model(DetrConfig(**SMALL)).eval()
    torch.nn.init.zeros_(model.class_head.weight)
    logits, boxes = model(images())
    assert logits.softmax(-1)[..., -1].tolist() == [pytest.approx([0.9] * 6)] * 2
    torch.testing.assert_close(boxes[0, :, :2], grid_points(6))
    assert boxes[..., 2:].flatten().tolist() == pytest.approx([0.25] * 24)
    corners = to_corners(model.predict_patches(model.features_by_layer(images())[0])[1])[0]
    x, y = corners[:, [0, 2]].mean(1), corners[:, [1, 3]].mean(1)
    assert x.tolist() == pytest.approx([1 / 6, 3 / 6, 5 / 6] * 4)
    assert y.tolist() == pytest.approx([n / 8 for n in (1, 3, 5, 7) for _ in range(3)])


def test_the_last_layer_of_the_decoder_is_the_output():
    model = build_model(DetrConfig(**SMALL)).eval()
    _, layers = model.features_by_layer(images())
    assert len(layers) == 2
    torch.testing.assert_close(layers[-1], model.features(images()), rtol=0, atol=0)
    assert not torch.equal(layers[0], layers[1])


def test_an_image_is_read_alike_alone_and_in_a_batch():
    model = build_model(DetrConfig(**SMALL)).eval()
    torch.nn.init.normal_(model.box_head[-1].weight)
    both = model(images())
    for number in range(2):
        alone = model(images()[number : number + 1])
        for a, b in zip(alone, both, strict=True):
            torch.testing.assert_close(a[0], b[number], rtol=1e-5, atol=1e-5)


def test_the_order_of_queries_is_that_of_the_objects():
    """Queries know one another by their content alone: permuted ones give permuted outputs."""
    model = build_model(DetrConfig(**SMALL)).eval()
    torch.nn.init.normal_(model.box_head[-1].weight)
    logits, boxes = model(images())
    order = torch.randperm(6, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        model.queries.copy_(model.queries[order])
        model.anchors.copy_(model.anchors[order])
    for before, after in zip((logits, boxes), model(images()), strict=True):
        torch.testing.assert_close(after, before[:, order], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("count", [1, 2, 5, 16, 100])
def test_points_fill_the_image(count):
    points = grid_points(count)
    assert points.shape == (count, 2)
    assert len({tuple(point) for point in points.tolist()}) == count
    assert ((points > 0) & (points < 1)).all()
    assert points.mean(0).tolist() == pytest.approx([0.5, 0.5], abs=0.13)


def test_sinusoids_tell_points_apart():
    table = sinusoids(grid_points(64), 30)
    assert table.shape == (64, 30)
    assert float(table.norm(dim=-1).max()) <= math.sqrt(30)
    assert ((table @ table.T).argmax(1) == torch.arange(64)).all()
    near, far = sinusoids(torch.tensor([[0.50, 0.5], [0.51, 0.5], [0.9, 0.1]]), 32)[1:] @ table.new_tensor(
        sinusoids(torch.tensor([0.5, 0.5]), 32).tolist()
    )
    assert near > far


def test_it_begins_with_a_vision_transformer():
    vit = VitConfig(classes=5, image=48, patch=8, width=32, layers=3, heads=4, inner=64)
    made = DetrConfig(**{**SMALL, "image": 32}).with_backbone(vit)
    assert (made.width, made.encoder_layers, made.image, made.decoder_layers) == (32, 3, 48, 2)
    assert made.backbone.has("encoder.stack.blocks.0.attention.qkv.weight")
    assert not made.backbone.has("decoder.blocks.0.attention.qkv.weight")


def test_sizes_that_make_no_sense():
    for name in ("classes", "queries", "decoder_layers"):
        with pytest.raises(ConfigError, match=f"{name}=0"):
            DetrConfig(**{**SMALL, name: 0})
    with pytest.raises(ConfigError, match="is not filled by patches"):
        DetrConfig(**{**SMALL, "image": 30})
    assert DetrConfig(classes=91).smaller().width < 256
