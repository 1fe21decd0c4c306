"""Configs that were made to hang, to fill the memory or to end in a traceback (D6, D8): one short line, at once."""

from __future__ import annotations

import random
import resource
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from headway.cli import main
from headway.config import parse, plain
from headway.errors import HeadwayError
from headway.presets import preset
from headway.runs import read_config
from headway.runs.config import RunConfig

TINY: dict[str, Any] = plain(preset("transformer-tiny").recipe())
ALIASES = "bomb0: &b0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"bomb{n}: &b{n} [{', '.join([f'*b{n - 1}'] * 9)}]\n" for n in range(1, 10)
)
MERGES = "bomb0: &b0 {k: x}\n" + "".join(
    f"bomb{n}: &b{n} {{<<: [{', '.join([f'*b{n - 1}'] * 9)}], k{n}: x}}\n" for n in range(1, 10)
)
FILES = {  # the text of a config file, and what is said of it
    "alias bomb": (ALIASES + "model: {width: *b9}\n", "anchor or alias 'b0'"),
    "alias bomb as a beam": (ALIASES + "task: {beam: *b9}\n", "anchor or alias 'b0'"),
    "merge-key bomb": (MERGES + "model: *b9\n", "anchor or alias 'b0'"),
    "merge key": ("model: {<<: {width: 8}}\n", "merge key '<<'"),
    "recursive alias": ("model: &m {width: *m}\n", "anchor or alias 'm'"),
    "5000-deep": ("model: {width: " + "[" * 5000 + "]" * 5000 + "}\n", "nested more than 64 levels"),
    "3000-deep map": ("model: " + "{a: " * 3000 + "1" + "}" * 3000, "nested more than 64 levels"),
    "1200-deep block map": ("".join(" " * n + "a:\n" for n in range(1200)), "nested more than 64 levels"),
    "6000-digit integer": ("model: {width: " + "9" * 6000 + "}\n", "is too large an integer"),
    "hex integer": ("model: {width: 0x" + "f" * 6000 + "}\n", "is too large an integer"),
    "key that is a number": ("1: 2\n", "key 1, expected text"),
    "key that is a number, below": ("model: {1: 2}\n", "key 1, expected text"),
    "key twice": ("model: {width: 8, width: 9}\n", "duplicate key 'width'"),
    "python tag": ("model: !!python/object/apply:os.system [id]\n", "tag 'tag:yaml.org,2002:python"),
    "not UTF-8": ("model: {width: \udcff}\n", "invalid UTF-8"),
    "not YAML": ("model: [\n", "not YAML"),
    "a megabyte": ("# " + "x" * 1_000_000 + "\n", "--limit config-bytes=N raises it"),
}
VALUES = {  # a setting, its value, and what is said of it
    "encoder_layers": ("model.encoder_layers", 20_000, "--limit layers=N raises it"),
    "a million layers": ("model.encoder_layers", 10**6, "--limit layers=N raises it"),
    "a billion layers": ("model.decoder_layers", 10**9, "--limit layers=N raises it"),
    "layers beyond 64 bits": ("model.encoder_layers", "99999999999999999999", "allowed: whole numbers of 64 bits"),
    "width": ("model.width", 10**12, "--limit width=N raises it"),
    "inner": ("model.inner", "99999999999999999999", "allowed: whole numbers of 64 bits"),
    "heads": ("model.heads", 10**9, "--limit width=N raises it"),
    "vocabulary": ("model.vocab", 10**9, "--limit vocabulary=N raises it"),
    "context": ("model.context", 10**9, "--limit context=N raises it"),
    "max_extra": ("task.max_extra", 10**9, "--limit output-tokens=N raises it"),
    "beam": ("task.beam", 10**9, "--limit beam=N raises it"),
    "no beam": ("task.beam", 0, "task.beam=0, allowed: whole numbers from 1"),
    "negative length": ("task.max_length", -1, "task.max_length=-1, allowed: whole numbers from"),
    "batch": ("train.batch_tokens", 10**12, "--limit batch=N raises it"),
    "NaN": ("train.learning_rate", "nan", "allowed: finite numbers"),
    "infinity": ("model.dropout", "inf", "allowed: finite numbers"),
    "overflow": ("train.learning_rate", "1e400", "allowed: finite numbers"),
    "overflow of 32 bits": ("train.optimiser.beta1", "-1e308", "allowed: finite numbers of 32 bits"),
    "negative eps": ("model.norm.eps", "-1.0", "norm.eps=-1.0, allowed: 0 and above"),
    "position base": ("model.position.base", "-1.0", "position.base=-1.0, allowed: 1 and above"),
    "long text": ("model.width", "x" * 100_000, "expected int"),
    "long list": ("model.width", list(range(20_000)), "expected int"),
    "unknown key": ("model." + "x" * 100_000, 1, "no config key 'model.xxx"),
    "unknown choice": ("model.position", "y" * 100_000, "model.position 'yyy"),
}


def refused(capsys: pytest.CaptureFixture[str], words: list[str], codes: tuple[int, ...], message: str) -> None:
    """A command ends with one of these codes and one short line, within 2 seconds and 100 MB."""
    capsys.readouterr()
    began, memory = time.perf_counter(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert main(words) in codes
    assert time.perf_counter() - began < 2
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory < 100_000  # kB
    error = capsys.readouterr().err
    assert error.startswith("headway: ")
    assert error.count("\n") == 1
    assert len(error) < 500
    assert message in error


def with_value(path: str, value: object) -> dict[str, Any]:
    """The config of transformer-tiny with one setting changed."""
    changed: dict[str, Any] = yaml.safe_load(yaml.safe_dump(TINY))
    branch, (*parents, last) = changed, path.split(".")
    for each in parents:
        branch = branch[each]
    branch[last] = value
    return changed


@pytest.mark.parametrize(("text", "message"), FILES.values(), ids=FILES)
def test_a_hostile_file_of_settings_is_refused(text, message, tmp_path, capsys):
    file = tmp_path / "config.yaml"
    file.write_text(text, errors="surrogateescape")
    refused(capsys, ["train", "transformer-tiny", "--data", "reverse", "--config", str(file)], (2,), message)
    refused(capsys, ["translate", str(tmp_path), "a"], (2, 4), message)
    refused(capsys, ["info", str(tmp_path)], (2, 4), message)


@pytest.mark.parametrize(("path", "value", "message"), VALUES.values(), ids=VALUES)
def test_a_hostile_setting_is_refused(path, value, message, tmp_path, capsys):
    file = tmp_path / "config.yaml"
    file.write_text(yaml.safe_dump(with_value(path, value)))
    refused(capsys, ["translate", str(tmp_path), "a"], (2, 4), message)
    train = ["train", "transformer-tiny", "--data", "reverse", "--out", str(tmp_path / "out")]
    refused(capsys, [*train, "--config", str(file)], (2,), message)
    if not isinstance(value, list):
        refused(capsys, [*train, f"--{path}={value}"], (2,), message)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"model.width": 65_536, "model.inner": 65_536}, "--limit parameters=N raises it"),
        ({"model.vocab": 4_000_000, "model.width": 32_768}, "--limit parameters=N raises it"),
        ({"model.width": 8_192, "model.inner": 65_536, "model.encoder_layers": 12}, "parameters"),
    ],
)
def test_a_model_that_is_too_large_is_refused_before_it_is_built(settings, message, tmp_path, capsys):
    from headway.config import override
    from headway.errors import ConfigError
    from headway.models.registry import build_model

    config = override(preset("transformer-tiny").recipe(), settings).model
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(ConfigError, match=message):
        build_model(config)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory < 100_000


def test_a_pipe_in_the_place_of_a_config_is_not_waited_for(tmp_path, capsys):
    import os

    os.mkfifo(tmp_path / "config.yaml")
    refused(capsys, ["info", str(tmp_path)], (4,), "config.yaml: not a regular file")
    refused(capsys, ["train", "gpt-char", "--config", str(tmp_path / "config.yaml")], (2,), "not a regular file")
    refused(capsys, ["train", "gpt-char", "--config", "/dev/zero"], (2,), "/dev/zero: not a regular file")
    refused(capsys, ["train", "gpt-char", "--config", str(tmp_path / "none")], (2,), "none: no such file")


def test_damaged_configs_raise_only_our_errors(tmp_path: Path):
    """Single bit flips of a config.yaml, and configs with values of every kind in every place."""
    drawn = random.Random(19)
    text = yaml.safe_dump(TINY, sort_keys=False).encode()
    odd: list[Any] = [
        None, True, -1, 0, 2**31, 2**63, 10**5000, 0.5, -1e308, float("nan"), "", "x", "none", "9" * 5000, "1e999", [],
        [[]], {}, {"type": "x"}, {"type": {}}, {1: 2}, {"a": {}}, ["x"] * 70_000, "x" * 100_000, b"x", {None: 1},
    ]  # fmt: skip
    outcomes = []
    for _ in range(300):
        damaged = bytearray(text)
        damaged[drawn.randrange(len(damaged))] ^= 1 << drawn.randrange(8)
        (tmp_path / "config.yaml").write_bytes(damaged)
        outcomes.append(outcome(lambda: read_config(tmp_path)))
    places = [(section, key) for section in TINY if section != "type" for key in TINY[section]]
    for _ in range(300):
        section, key = drawn.choice(places)
        value = drawn.choice(odd)
        changed = {**TINY, section: {**TINY[section], key: value}} if drawn.random() < 0.9 else {**TINY, section: value}
        outcomes.append(outcome(lambda changed=changed: parse(RunConfig, changed)))
    messages = [each for each in outcomes if each]
    assert len(messages) > 300
    assert max(map(len, messages)) < 1000
    assert not any("\n" in message for message in messages)


def outcome(read) -> str:
    """What is said of a config, "" if it is read; any other exception fails the test."""
    try:
        read()
    except HeadwayError as error:
        return str(error)
    return ""
