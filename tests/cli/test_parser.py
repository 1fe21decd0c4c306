"""The parser: what each command declares, and what building it costs."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from headway.cli import main
from headway.cli.commands import COMMANDS, command
from headway.cli.parser import build_parser, named_commands

HELP = """
import sys
from headway.cli import main
try:
    main(sys.argv[1:])
except SystemExit:
    pass
import json
print(json.dumps({"modules": sorted(sys.modules)}))
"""
MODULES = 180  # that help may import, which is what its time is made of; no time is tested: machines are noisy
HEAVY = ("torch", "rich", "numpy", "yaml", "headway.runs", "headway.models", "headway.storage", "headway.presets")


def asked(*words: str) -> tuple[str, dict]:
    done = subprocess.run([sys.executable, "-c", HELP, *words], capture_output=True, text=True, check=True)
    *shown, told = done.stdout.splitlines()
    return "\n".join(shown), json.loads(told)


@pytest.mark.parametrize("words", [["--help"], ["train", "--help"], ["evaluate", "--help"], ["lab", "-h"]])
def test_help_imports_nothing_heavy(words):
    shown, told = asked(*words)
    assert shown.startswith("usage: headway")
    assert [name for name in HEAVY if name in told["modules"]] == []
    assert len(told["modules"]) < MODULES


def test_a_command_imports_no_other_command():
    _, told = asked("translate", "--help")
    modules = [name for name in told["modules"] if name.startswith("headway.cli.commands.")]
    assert modules == ["headway.cli.commands.translate"]


def test_no_command_module_imports_anything_heavy():
    code = "import sys, json; from headway.cli.parser import *; build_parser(); print(json.dumps([*sys.modules]))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert [name for name in HEAVY if name in json.loads(done.stdout)] == []


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_its_four_parts(name):
    module = command(name)
    assert module.HELP
    assert "\n" not in module.HELP
    assert all(f"headway {name}" in example for example in module.EXAMPLES)
    assert module.EXAMPLES
    assert callable(module.execute)


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_a_command_shows_every_option_and_default(name, capsys):
    with pytest.raises(SystemExit) as caught:
        main([name, "--help"])
    assert caught.value.code == 0
    shown = capsys.readouterr().out
    parser = build_parser([name])._subparsers._group_actions[0].choices[name]
    for action in parser._actions:
        assert all(flag in shown for flag in action.option_strings)
        assert action.help
        plain = action.help.replace("%(default)s", "").replace("%%", "")
        if action.default not in (None, False, "", []) and "%(default)s" not in action.help:
            assert str(action.default) not in plain, "a default is written once, as %(default)s"


def test_the_called_command_is_found_behind_options():
    assert list(named_commands(["--debug", "score", "train"])) == ["score"]
    assert list(named_commands(["--version"])) == list(COMMANDS)
    assert list(named_commands(["nonsense"])) == list(COMMANDS)


def test_an_unknown_command_is_told_the_known_ones(capsys):
    with pytest.raises(SystemExit) as caught:
        main(["trian"])
    assert caught.value.code == 2
    error = capsys.readouterr().err
    assert all(name in error for name in COMMANDS)


def test_an_unknown_option_is_an_error(capsys):
    with pytest.raises(SystemExit) as caught:
        main(["demo", "--model.width", "3"])
    assert caught.value.code == 2
    assert "unknown arguments: --model.width 3" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["sentences", "--kinds", "rotary"],
            "lab sentences: --kinds is no flag of this lab; its flags: --steps, --samples",
        ),
        (["sentences", "--step", "3"], "lab sentences: --step is no flag of this lab; did you mean steps?"),
        (["pondering", "--plot", "x.gif"], "--plot x.gif, allowed: a name that ends in .png or .svg"),
        (["sentences", "--model.width", "3"], "--model.width is a config key, which this lab does not take"),
        (["sentences", "--steps", "0"], "--steps=0, allowed: whole numbers from 1"),
        (["none"], "no lab 'none': `headway lab` lists them"),
    ],
)
def test_a_flag_belongs_to_its_lab(words, message, capsys):
    assert main(["lab", *words]) == 2
    assert message in capsys.readouterr().err


def test_a_flag_of_a_lab_may_be_near_an_option_of_all_labs(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert main(["lab", "positions", "--seeds", "0"]) == 2  # and not: did you mean --seed?
    assert "--seeds=0" in capsys.readouterr().err


def test_train_help_without_a_preset_says_how_to_list_the_config_keys(capsys):
    with pytest.raises(SystemExit) as caught:
        main(["train", "--help"])
    assert caught.value.code == 0
    assert "headway train gpt-char --help    the config keys" in capsys.readouterr().out


def test_train_help_with_a_preset_lists_its_config_keys(capsys):
    assert main(["train", "gpt-char", "--model.position", "rotary", "--model.width", "96", "--help"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("usage: headway train")
    assert "\ntask: language" in shown
    assert "\n  --model.width int (default: 96)\n" in shown
    assert "\n  --model.position.base float | float,… (default: 10000.0)\n" in shown
    assert "\n  --train.precision fp32 | bf16 (default: fp32)\n" in shown
    assert [shown.index(f"\n{name}: ") for name in ("task", "data", "model", "train")] == sorted(
        shown.index(f"\n{name}: ") for name in ("task", "data", "model", "train")
    )
    assert main(["train", "gpt-chr", "--help"]) == 2
