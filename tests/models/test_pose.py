from __future__ import annotations

import pytest
import torch

from headway.errors import ConfigError
from headway.models import PoseConfig, build_model
from headway.models.pose import ClassicHead, SimpleHead

SMALL = {"image": (32, 24), "patch": 8, "width": 16, "layers": 1, "heads": 2, "inner": 32}


@pytest.mark.parametrize("head", [SimpleHead(), ClassicHead(width=8)])
def test_a_map_for_each_keypoint_four_times_as_fine_as_the_patches(head):
    config = PoseConfig(**SMALL, head=head)
    model = build_model(config)
    maps = model(torch.randn(2, 3, 32, 24))
    assert maps.shape == (2, 17, 16, 12)
    assert config.map == (16, 12)
    maps.square().sum().backward()
    assert all(parameter.grad is not None for parameter in model.parameters())


def test_a_patch_is_seen_where_it_lies():
    """Without layers a change in one patch changes the maps around it alone."""
    model = build_model(PoseConfig(**SMALL, head=SimpleHead())).eval()
    torch.nn.init.normal_(model.head[2].weight)
    for part in model.encoder.stack.blocks:
        torch.nn.init.zeros_(part.attention.out.weight)
    images = torch.randn(1, 3, 32, 24)
    other = images.clone()
    other[:, :, 8:16, 16:24] += torch.randn(3, 8, 8)  # the patch in row 1, column 2
    changed = (model(images) - model(other)).abs().amax((0, 1)) > 1e-6
    assert changed[4:8, 8:12].all()
    assert not changed[11:].any()
    assert not changed[:, :5].any()


@pytest.mark.parametrize(
    ("head", "more"), [("classic", (768 + 256) * 256 * 16 + 4 * 256 + 257 * 17), ("simple", (768 * 9 + 1) * 17)]
)
def test_the_heads_of_the_paper_at_vitpose_b(head, more):
    kind = ClassicHead() if head == "classic" else SimpleHead()
    model = build_model(PoseConfig(head=kind), device="meta")
    assert sum(parameter.numel() for parameter in model.head.parameters()) == more
    assert model.map == (64, 48)
    assert not [name for name, _ in model.named_parameters() if name.startswith("encoder.head")]


def test_sizes_that_make_no_sense():
    with pytest.raises(ConfigError, match="keypoints=0"):
        PoseConfig(keypoints=0)
    with pytest.raises(ConfigError, match="is not filled by patches"):
        PoseConfig(image=(250, 192))
    with pytest.raises(ConfigError, match=r"head.width=0"):
        ClassicHead(width=0)
