"""A block that is used again and again: its n-th use is layer n."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import headway
from headway.errors import ConfigError
from headway.inspection import ablate, head_effects, patch
from headway.nn.block import Block
from tests.nn.tiny import WIDTH, block_config, scramble

USES = 3


class Loop(nn.Module):
    """x -> block(block(block(x)))."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([Block(block_config())])

    def forward(self, x_BTD: Tensor) -> Tensor:
        for _ in range(USES):
            x_BTD = self.blocks[0](x_BTD)
        return x_BTD


class Model(nn.Module):
    """A loop between an identity and a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.stack, self.head = Loop(), nn.Linear(WIDTH, 5)

    def forward(self, x_BTD: Tensor) -> Tensor:
        return self.head(self.stack(x_BTD))


@pytest.fixture
def model() -> nn.Module:
    torch.manual_seed(0)
    return scramble(Model(), std=0.3).eval()


@pytest.fixture
def texts() -> Tensor:
    return torch.randn(2, 6, WIDTH, generator=torch.Generator().manual_seed(1))


@torch.no_grad()
def test_each_use_is_a_layer(model, texts):
    assert "layers.*.self.weights" in [tap.name for tap in headway.taps(model)]
    with headway.capture(model, what=("weights", "input", "residual", "heads", "v")) as seen:
        model(texts)
        model(texts)
    assert len(seen.passes) == 2
    assert {point.layer for point in seen.last.points.values()} == {0, 1, 2}
    stream = texts
    for use in range(USES):
        assert torch.equal(seen[f"layers.{use}.input"], stream)
        stream = model.stack.blocks[0](stream)
        assert torch.equal(seen.residual[use], stream)
        mixed = seen[f"layers.{use}.self.weights"] @ seen[f"layers.{use}.self.v"]
        torch.testing.assert_close(mixed, seen[f"layers.{use}.self.heads"])
    with headway.capture(model, layers=[1]) as one:
        model(texts)
    assert list(one) == ["layers.1.self.weights"]
    assert torch.equal(one.weights[1], seen.weights[1])


@torch.no_grad()
def test_one_use_can_be_changed_alone(model, texts):
    with headway.capture(model, what=("residual", "hidden")) as seen:
        plain = model(texts)
    other = torch.randn(seen["layers.1.residual"].shape)
    with patch(model, {"layers.1.residual": other}):
        changed = [model(texts) for _ in range(2)]
    torch.testing.assert_close(changed[0], model.head(model.stack.blocks[0](other)))
    assert torch.equal(*changed)  # uses are counted anew in every pass
    assert torch.equal(model(texts), plain)
    block = model.stack.blocks[0]
    with ablate(model, heads={"layers.2.self": [1]}), headway.capture(model, what="out") as seen:
        model(texts)
    with ablate(model, heads={"layers.*.self": [1]}), headway.capture(model, what="out") as every:
        model(texts)
    with headway.capture(model, what="out") as alone:
        model(texts)
    for use in range(USES):
        name = f"layers.{use}.self.out"
        assert torch.equal(seen[name], alone[name]) == (use < 2)
        assert not torch.equal(every[name], alone[name])
    with ablate(model, parts=["layers.1"]), headway.capture(model, what=("input", "residual")) as off:
        model(texts)
    expected = block.feedforward_norm(block.attention_norm(off["layers.1.input"], None), None)
    torch.testing.assert_close(off["layers.1.residual"], expected)
    assert list(head_effects(model, lambda: model(texts).mean().item())) == ["layers.*.self"]


def test_what_a_loop_has_not(model):
    with (
        pytest.raises(ConfigError, match=r"unknown attention 'layers.1.cross'; this model has: layers"),
        ablate(model, heads={"layers.1.cross": [0]}),
    ):
        pass
