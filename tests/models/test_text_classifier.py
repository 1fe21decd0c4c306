"""The text classifier: padding says nothing, and how far the first token sees is what the config says."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from headway.config import parse, plain
from headway.errors import ConfigError
from headway.models import BertConfig, LongformerConfig, ModelConfig, TextClassifierConfig, build_model
from headway.nn.longformer_attention import Windows

LONG = LongformerConfig(vocab=20, windows=Windows(radius=2), context=64, width=16, layers=2, heads=2, inner=16)
BERT = BertConfig(vocab=20, context=64, width=16, layers=1, heads=2, inner=16)
CONFIGS = {
    "global": TextClassifierConfig(encoder=LONG, classes=3, global_tokens=1),
    "windows": TextClassifierConfig(encoder=LONG, classes=3),
    "bert": TextClassifierConfig(encoder=BERT, classes=3),
}


def rows(length: int = 40) -> torch.Tensor:
    return torch.randint(1, 20, (2, length), generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("name", CONFIGS)
def test_padding_changes_nothing(name):
    model, tokens = build_model(CONFIGS[name], seed=1).eval(), rows()
    padded = torch.nn.functional.pad(tokens, (0, 7))
    torch.testing.assert_close(model(padded, torch.tensor([40, 40])), model(tokens), atol=1e-5, rtol=1e-4)
    assert model(tokens).shape == (2, 3)


@pytest.mark.parametrize("name", CONFIGS)
def test_backward_reaches_every_parameter_in_use(name):
    model = build_model(CONFIGS[name], seed=1).train()
    (model(rows(), torch.tensor([40, 33])) ** 2).sum().backward()
    # The first token alone is read: where it is global, it looks through projections of its own in the last layer.
    unused = {"windows": "global", "global": "blocks.1.attention.qkv", "bert": "nothing"}[name]
    unreached = [key for key, p in model.named_parameters() if p.grad is None or not p.grad.abs().sum() > 0]
    assert [key for key in unreached if unused not in key] == []


@pytest.mark.parametrize(("name", "sees"), [("global", True), ("windows", False), ("bert", True)])
def test_whether_the_first_token_sees_the_last(name, sees):
    model, tokens = build_model(CONFIGS[name], seed=1).eval(), rows()
    other = tokens.clone()
    other[:, -1] = (other[:, -1] + 1) % 20
    assert torch.equal(model(tokens), model(other)) != sees


def test_a_window_reaches_as_far_as_its_layers_together():
    model, tokens = build_model(CONFIGS["windows"], seed=1).eval(), rows()
    for place, seen in ((4, True), (5, False)):
        other = tokens.clone()
        other[:, place] = (other[:, place] + 1) % 20
        assert torch.equal(model(tokens), model(other)) != seen


def test_a_config_survives_being_written():
    for config in CONFIGS.values():
        assert parse(ModelConfig, plain(config)) == config


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"classes": 0}, "classes=0"),
        ({"global_tokens": -1}, "global_tokens=-1"),
        ({"encoder": replace(LONG, pooler=False)}, "reads the pooler"),
        ({"encoder": BERT, "global_tokens": 1}, "global_tokens=1, allowed without windows: 0"),
    ],
)
def test_invalid_settings_raise(settings, message):
    with pytest.raises(ConfigError, match=message):
        TextClassifierConfig(**{"encoder": LONG, "classes": 3, **settings})
