"""The registry of models, and what every registered model can be called with."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, fields

import pytest
import torch

from headway import config as configs
from headway import models
from headway.errors import ConfigError
from headway.models import MODELS, Model, ModelInputs, ModelOutputs, TextSizes, build_model
from headway.presets import PRESETS
from tests.models.tiny import ALL, CAPTIONING, TRANSLATION, VISION, build, outputs, text


def test_every_registered_config_builds_a_model_that_can_be_run():
    names = {field.name for field in fields(ModelInputs)}
    for name, config in MODELS.items():
        assert configs.kind(config) == name
        assert isinstance(inspect.getattr_static(config, "text"), property)
        model = getattr(models, inspect.signature(config.build).return_annotation)
        assert issubclass(model, Model)
        assert model.title
        assert model.reads
        assert model.reads <= names
        assert model.run is not Model.run


@torch.no_grad()
@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("name", ALL)
def test_run_of_text_is_forward_to_the_bit(name, padded):
    model, batch = build(name), text(name, padded=padded)
    first = (torch.arange(batch.tokens.shape[1]) < 1).expand(batch.tokens.shape)
    inputs = ModelInputs(
        tokens=batch.tokens,
        lengths=batch.lengths,
        source=batch.source,
        source_lengths=batch.source_lengths,
        global_tokens=first if "global_tokens" in model.reads else None,
    )
    expected, found = outputs(model, batch), model.run(inputs)
    assert (found.tokens is None) is (found.vectors is not None)
    parts = [part for part in expected if part is not None]
    assert all(torch.equal(a, b) for a, b in zip(found.present.values(), parts, strict=True))


@torch.no_grad()
@pytest.mark.parametrize("name", [*VISION, *CAPTIONING])
def test_run_of_images_is_forward_to_the_bit(name):
    model = build(name)
    images = torch.randn(2, 3, *((8, 8) if name in CAPTIONING else (8, 12)))
    tokens = torch.randint(5, (2, 4))
    if "tokens" in model.reads:
        assert torch.equal(model.run(ModelInputs(images=images, tokens=tokens)).tokens, model(images, tokens))
        return
    assert torch.equal(model.run(ModelInputs(images=images)).classes, model(images))


def test_a_missing_input_is_named():
    with pytest.raises(ConfigError, match=r"the model reads source, which is missing from its inputs \(tokens\)"):
        build(next(iter(TRANSLATION))).run(ModelInputs(tokens=torch.ones(1, 3).long()))


@pytest.mark.parametrize("name", PRESETS)
def test_the_vocabulary_is_set_by_its_key(name):
    config = PRESETS[name].config()
    if config.text is not None:
        again = configs.override(config, {config.text.vocab_key: 77})
        assert again.text.vocab == 77
        assert type(again) is type(config)


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginConfig:
    width: int = 2

    def build(self) -> PluginModel:
        return PluginModel(self)

    @property
    def text(self) -> TextSizes | None:
        return None


class PluginModel(Model):
    reads = frozenset({"states"})

    def __init__(self, config: PluginConfig) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(config.width, 1)

    def forward(self, states):
        return self.layer(states)

    def run(self, inputs: ModelInputs) -> ModelOutputs:
        return ModelOutputs(features=self(inputs.need("states")))


def test_a_plugins_config_is_built_once_it_is_registered(monkeypatch):
    with pytest.raises(ConfigError, match="is not a registered model config"):
        build_model(PluginConfig())
    monkeypatch.setitem(MODELS.homes, "plugin", f"{__name__}:PluginConfig")
    model = build_model(PluginConfig(width=3), seed=1)
    assert model.run(ModelInputs(states=torch.ones(1, 3))).features.shape == (1, 1)
    assert configs.parse(MODELS, {"type": "plugin", "width": 3}) == PluginConfig(width=3)
