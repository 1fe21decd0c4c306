"""A model that is built without memory, and drawn later: the bits of `build_model`, one parameter at a time."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from headway.bench.memory import LiveBytes
from headway.models import GptConfig, build_model, registry
from headway.models.drawing import draw_later, named_tensors
from headway.reliability.runs import TINY
from tests.models.tiny import ALL, CAPTIONING, SPEECH, VISION

TASKS = {name: tiny.config(Path("cache"), {}).model for name, tiny in TINY.items() if tiny.available}
CONFIGS = {**TASKS, **ALL, **VISION, **CAPTIONING, **SPEECH}
GPT = GptConfig(vocab=500, context=16, width=64, layers=6, heads=2)


@pytest.mark.parametrize("name", CONFIGS)
def test_the_bits_are_those_of_the_model_in_memory(name):
    config = CONFIGS[name]
    before = torch.get_rng_state()
    found = draw_later(config, seed=3)
    assert found is not None
    model, drawing = found
    assert all(tensor.is_meta for tensor in model.parameters())
    drawn = {name: tensor.clone() for name, tensor in drawing.values()}
    expected = dict(named_tensors(build_model(config, seed=3)))
    assert drawn.keys() == expected.keys()
    for name, tensor in expected.items():
        assert torch.equal(drawn[name], tensor), name
    assert torch.equal(torch.get_rng_state(), before)


def test_one_parameter_is_in_memory_at_a_time():
    found = draw_later(GPT, seed=1)
    assert found is not None
    with LiveBytes() as drawn:
        names = [name for name, _ in found[1].values()]
    with LiveBytes() as built:
        model = build_model(GPT, seed=1)
    assert sorted(names) == sorted(name for name, _ in named_tensors(model))
    largest = max(tensor.nbytes for tensor in model.parameters())
    assert built.peak > 10 * largest
    assert drawn.peak < 2.5 * largest


class Unusual(nn.Module):
    """Operations that a user-defined model may call while it is built."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(4, 3))
        if kind == "in two parts":
            nn.init.normal_(self.weight[:2])
            nn.init.uniform_(self.weight[2:], 1, 2)
        elif kind == "drawn twice":
            nn.init.trunc_normal_(self.weight)
            with torch.no_grad():
                self.weight.mul_(torch.rand(3)).add_(self.weight)
        elif kind == "on the processor":
            self.weight = nn.Parameter(torch.rand(4, 3, device="cpu"))
        elif kind == "tied":
            self.head = nn.Linear(3, 4, bias=False)
            self.head.weight = self.weight
            nn.init.normal_(self.weight)
            self.register_buffer("scale", torch.arange(4).float().sqrt())


@pytest.mark.parametrize("kind", ["in two parts", "drawn twice", "tied", "on the processor"])
def test_what_cannot_be_repeated_is_drawn_in_memory(kind, monkeypatch):
    class Config:
        def build(self) -> nn.Module:
            return Unusual(kind)

    monkeypatch.setattr(registry, "kind", lambda _: "unusual")
    monkeypatch.setattr(registry, "MODELS", {"unusual": Config})
    monkeypatch.setattr(registry, "expect_within_limits", lambda _: None)
    found = draw_later(Config(), seed=5)  # type: ignore[arg-type]
    if kind == "on the processor":
        assert found is None
        return
    assert found is not None
    drawn = {name: tensor.clone() for name, tensor in found[1].values()}
    expected = dict(named_tensors(build_model(Config(), seed=5)))  # type: ignore[arg-type]
    assert drawn.keys() == expected.keys()
    assert all(torch.equal(drawn[name], tensor) for name, tensor in expected.items())
