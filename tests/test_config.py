from __future__ import annotations

import pytest

from headway.config import kind, override, parse, plain
from headway.errors import ConfigError
from headway.models import GptConfig, RnnSeq2SeqConfig
from headway.nn.norms import RMSNorm
from headway.nn.positions import T5, AlibiBias, Learned, Rotary, SinusoidalHalves, SinusoidalTensor2Tensor
from headway.nn.recurrent import RecurrentConfig
from headway.nn.rnn_attention import AlignmentConfig

GPT = GptConfig(vocab=10, context=8, width=8, layers=1, heads=2)
GRU = RecurrentConfig(hidden=4)
SEQ2SEQ = RnnSeq2SeqConfig(vocab=10, encoder=GRU, decoder=GRU, attention=AlignmentConfig())


@pytest.mark.parametrize(
    ("config", "name"),
    [
        (AlibiBias, "alibi"), (T5, "t5"), (RMSNorm, "rms-norm"), (SinusoidalHalves, "sinusoidal-halves"),
        (SinusoidalTensor2Tensor, "sinusoidal-tensor2tensor"), (GptConfig, "gpt"), (RnnSeq2SeqConfig, "rnn-seq2seq"),
    ],
)  # fmt: skip
def test_a_choice_goes_by_its_name(config, name):
    assert kind(config) == name


@pytest.mark.parametrize("config", [GPT, SEQ2SEQ])
def test_plain_data_and_back(config):
    assert parse(type(config), plain(config)) == config


@pytest.mark.parametrize(
    ("changes", "field", "value"),
    [
        ({"position": "rotary"}, "position", Rotary()),
        ({"position": "none"}, "position", None),
        ({"position": {"type": "rotary", "base": 500.0}}, "position", Rotary(base=500.0)),
        ({"position": "rotary", "position.layout": "halves"}, "position", Rotary(layout="halves")),
        ({"position": AlibiBias()}, "position", AlibiBias()),
        ({"position.concat": "4"}, "position", Learned(concat=4)),
        ({"layers": "3"}, "layers", 3),
        ({"dropout": 0}, "dropout", 0.0),
        ({"dropout": "1e-1"}, "dropout", 0.1),
        ({"bias": "false"}, "bias", False),
        ({"inner": None}, "inner", None),
        ({"inner": "12"}, "inner", 12),
    ],
)
def test_overrides_are_typed_by_the_dataclass(changes, field, value):
    assert getattr(override(GPT, changes), field) == value


def test_tuples_and_nested_keys():
    changed = override(SEQ2SEQ, {"context": "readout,input", "encoder.hidden": 6, "attention.kind": "additive"})
    assert (changed.context, changed.encoder.hidden) == (("readout", "input"), 6)
    assert changed.attention == AlignmentConfig(kind="additive")
    assert override(SEQ2SEQ, {"attention": "none"}).attention is None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"positoin": "rotary"}, "no config key 'positoin': did you mean position"),
        ({"position": "rotray"}, "position 'rotray': did you mean rotary.*alibi"),
        ({"position": "fraction"}, "position 'fraction'.*allowed: none, raw-index"),
        ({"position.bas": 3}, "no config key 'position.bas'"),
        ({"layers": "two"}, "layers='two', expected int"),
        ({"layers": 2.5}, r"layers=2\.5, expected int"),
        ({"layers": True}, "layers=True, expected int"),
        ({"activation": "selu"}, "activation: 'selu'.*allowed: relu"),
        ({"norm": "none"}, "norm=none is not allowed here; allowed: layer-norm, rms-norm"),
        ({"width": 9}, "width=9 is not divisible by heads=2"),
        ({"layers.more": 1}, "no config key 'layers.more'"),
    ],
)
def test_mistakes_get_one_line_that_names_them(changes, message):
    with pytest.raises(ConfigError, match=message) as caught:
        _ = override(GPT, changes).stack
    assert "\n" not in str(caught.value)


def test_what_is_missing_is_named():
    with pytest.raises(ConfigError, match="context is missing from gpt"):
        parse(GptConfig, {"vocab": 5})
    with pytest.raises(ConfigError, match="type='bert', allowed: gpt"):
        parse(GptConfig, {"type": "bert"})
    with pytest.raises(ConfigError, match="gpt=3, expected settings"):
        parse(GptConfig, 3)
