from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any, get_args, get_type_hints

import pytest

from headway.config import SIZES, Choice, expect_within_limits, kind, override, parse, plain
from headway.data.config import DataConfig
from headway.errors import ConfigError
from headway.limits import LIMITS, raised
from headway.models import GptConfig, RnnSeq2SeqConfig
from headway.models.registry import build_model
from headway.nn.norms import RMSNorm
from headway.nn.positions import T5, AlibiBias, Learned, Rotary, SinusoidalHalves, SinusoidalTensor2Tensor
from headway.nn.recurrent import RecurrentConfig
from headway.nn.rnn_attention import AlignmentConfig
from headway.runs.config import RunConfig
from headway.tasks.language_modelling.config import Language
from headway.training.config import TrainConfig

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


# Whole numbers that are not sizes: counts of steps and checkpoints, which take time and no memory, and a seed.
COUNTS = {
    "accumulate", "average", "collect", "evaluate_every", "keep", "log", "min_count", "patience", "save_every", "seed",
    "steps", "warmup", "rate", "posterior",
}  # fmt: skip


def settings(wanted: Any, seen: set[type]) -> Iterator[tuple[type, str, Any]]:
    """Every setting of every dataclass that a config can hold, with its type."""
    if isinstance(wanted, Choice):
        for name in wanted.homes:
            yield from settings(wanted[name], seen)
    elif isinstance(wanted, type) and dataclasses.is_dataclass(wanted):
        if wanted not in seen:
            seen.add(wanted)
            hints = get_type_hints(wanted)
            for field in dataclasses.fields(wanted):
                yield wanted, field.name, hints[field.name]
                yield from settings(hints[field.name], seen)
    else:
        for part in get_args(wanted):
            yield from settings(part, seen)


def test_every_whole_number_of_a_config_has_a_limit_or_is_a_count():
    """D6: a new setting is a size, with its limit in SIZES or in the class's own `size_limits`, or it is in COUNTS."""
    numbers = {
        (config, name)
        for config, name, wanted in settings(RunConfig, set())
        if int in (wanted, *get_args(wanted), *(part for each in get_args(wanted) for part in get_args(each)))
    }
    limited = {(config, name) for config, name in numbers if name in {**SIZES, **getattr(config, "size_limits", {})}}
    assert {name for _, name in numbers - limited} <= COUNTS
    assert {name for _, name in limited} >= set(SIZES), "a size that no dataclass has"
    assert {SIZES[name] for name in SIZES} <= set(LIMITS)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"layers": 1025}, r"^layers: 1,025 layers, allowed: up to 1,024 \(--limit layers=N raises it\)$"),
        ({"width": 10**12}, "^width: 1,000,000,000,000 numbers, allowed: up to 65,536"),
        ({"layers": -1}, "^layers=-1, allowed: whole numbers from 0$"),
        ({"vocab": 2**63}, "^vocab=9223372036854775808, allowed: whole numbers of 64 bits$"),
        ({"vocab": 10**5000}, "^vocab=<an integer of 16610 bits>, allowed: whole numbers of 64 bits$"),
        ({"vocab": "9" * 5000}, "^vocab='9{78}…, expected int$"),
        ({"dropout": 10**400}, "^dropout=10{38}…, allowed: whole numbers of 64 bits$"),
        ({"dropout": float("nan")}, "^dropout=nan, allowed: finite numbers of 32 bits$"),
        ({"dropout": "-inf"}, "^dropout='-inf', allowed: finite"),
        ({"dropout": "1e400"}, "^dropout='1e400', allowed: finite"),
        ({"position": {1: 2}}, "^position.*allowed: none, "),
        ({"position": {"type": "rotary", 1: 2}}, "^no config key 'position.1': allowed: base, layout$"),
        ({"windows": {"radius": "1," * 70_000}}, "^windows.*: a list: 70,001 entries, allowed: up to 65,536"),
    ],
)
def test_numbers_outside_the_limits_are_refused_in_one_line(changes, message):
    """D6 and D8."""
    with pytest.raises(ConfigError, match=message):
        parse(GptConfig, {**plain(GPT), **changes})


def test_a_limit_can_be_raised_and_holds_for_configs_made_in_python():
    deep = dataclasses.replace(GPT, layers=2000)
    with pytest.raises(ConfigError, match="layers: 2,000 layers"):
        build_model(deep, device="meta")
    with pytest.raises(ConfigError, match="layers: 2,000 layers"):
        expect_within_limits(RunConfig(task=Language(), data=DataConfig(), model=deep, train=TrainConfig()))
    with raised({"layers": 2000}):
        assert parse(GptConfig, plain(deep)) == deep
    with raised({"parameters": 100}), pytest.raises(ConfigError, match=r"^gpt of these sizes: 1,\d+ parameters"):
        build_model(GPT)


def test_values_of_any_size_and_shape_are_refused_in_a_short_line():
    """D6: the message about a value held all of it."""
    recursive: dict[str, Any] = {}
    recursive["type"] = recursive["width"] = recursive
    bomb: list[Any] = ["x"]
    for _ in range(40):
        bomb = [bomb] * 9
    for value in (recursive, bomb, {"type": bomb}, "x" * 10**6, list(range(10**5)), {"k" * 10**6: 1}):
        for name in [field.name for field in dataclasses.fields(GPT)]:
            with pytest.raises(ConfigError) as caught:
                parse(GptConfig, {**plain(GPT), name: value})
            assert len(str(caught.value)) < 400
