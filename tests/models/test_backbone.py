"""Which part of a model others begin with, by what its config holds or says."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from headway.errors import ConfigError
from headway.models import BertConfig, GptConfig, TextClassifierConfig, VitConfig, build_model
from headway.models.backbone import backbone_of, begin_with
from headway.presets import PRESETS

BERT = BertConfig(vocab=7, context=8, width=8, layers=1, heads=2, inner=8)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaggerConfig:
    """A model that another package adds: all it does is to hold an encoder in a field."""

    encoder: BertConfig | GptConfig
    tags: int = 3


def test_a_field_with_a_models_config_is_the_backbone():
    tagger = TaggerConfig(encoder=BERT)
    found = backbone_of(tagger)
    assert (found.config, found.prefix) == (BERT, "encoder.")
    assert found.has("encoder.embedding.weight")
    assert not found.has("head.weight")
    other = BertConfig(vocab=9, context=4, width=4, layers=1, heads=1, inner=4)
    begun = begin_with(tagger, TextClassifierConfig(encoder=other, classes=2), "run")
    assert begun == TaggerConfig(encoder=other)
    with pytest.raises(ConfigError, match="a run with a bert or gpt, alone or inside another model"):
        begin_with(tagger, VitConfig(classes=2), "run")


@pytest.mark.parametrize("name", [name for name, preset in PRESETS.items() if preset.run is not None])
def test_every_model_begins_with_one_of_its_kind_and_has_its_backbones_weights(name):
    config = PRESETS[name].recipe().model
    assert begin_with(config, config, "run") is config
    found = backbone_of(config)
    names = list(build_model(config, device="meta").state_dict())
    inside = {each.removeprefix(found.prefix) for each in names if found.has(each)}
    assert inside
    assert inside <= set(build_model(found.config, device="meta").state_dict())
