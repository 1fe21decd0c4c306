"""The smaller versions of a model that `headway train --budget` may choose from."""

from __future__ import annotations

import pytest

from headway.config import plain
from headway.models import GptConfig, build_model
from headway.models.registry import smaller_model
from headway.presets import PRESETS

RECIPES = {name: preset for name, preset in PRESETS.items() if preset.run is not None}
FIXED = {"vocab", "source_vocab", "context", "classes", "image", "patch", "channels", "type"}


def parameters(config) -> int:
    return sum(each.numel() for each in build_model(config, device="meta").parameters())


def differing(before, after) -> set[str]:
    """Names of the settings that differ, at any depth."""
    return {
        name
        for key, value in before.items()
        for name in (differing(value, after[key]) if isinstance(value, dict) else {key} if value != after[key] else ())
    }


@pytest.mark.parametrize("name", RECIPES)
def test_each_smaller_version_is_smaller_and_reads_the_same(name):
    config = RECIPES[name].recipe().model
    counts, chain = [parameters(config)], [config]
    while (config := smaller_model(config)) is not None:
        assert not differing(plain(chain[0]), plain(config)) & FIXED
        chain.append(config)
        counts.append(parameters(config))
        assert len(chain) < 20
    assert counts == sorted(set(counts), reverse=True)


@pytest.mark.parametrize(
    "name", ["transformer-tiny", "transformer-big", "gpt-char", "gpt2", "bert-base", "convnet", "rnn-lm"]
)
def test_models_of_text_and_images_can_shrink_to_what_a_laptop_trains(name):
    config = RECIPES[name].recipe().model
    while (smaller := smaller_model(config)) is not None:
        config = smaller
    text = config.text
    without_vocabulary = parameters(config) - (0 if text is None else 128 * text.vocab)
    assert without_vocabulary < 1_500_000


def test_groups_of_heads_still_divide():
    config = GptConfig(vocab=9, context=8, width=288, layers=6, heads=6, kv_heads=2, inner=768)
    sizes = []
    while (config := smaller_model(config)) is not None:
        build_model(config, device="meta")
        sizes.append((config.layers, config.width, config.heads, config.kv_heads))
    assert sizes == [(4, 192, 4, 2), (4, 96, 2, 2), (2, 96, 2, 2), (2, 48, 1, 1)]
