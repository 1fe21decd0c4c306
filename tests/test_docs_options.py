"""Every flag, setting and extra that the documents name exists, and those that exist are documented."""

from __future__ import annotations

import dataclasses
import re
import shlex
import tomllib

import pytest

from headway.bench import BENCHES
from headway.cli.commands.train import resolve
from headway.cli.options import overrides_of
from headway.cli.parser import build_parser
from headway.config import override
from headway.errors import ConfigError
from headway.extras import EXTRAS
from headway.labs.registry import LABS
from headway.presets import PRESETS
from headway.training.config import TrainConfig
from tests.documents import (
    DOCUMENTS,
    RESULTS,
    ROOT,
    flags_in,
    flags_of,
    flags_of_labs,
    read,
    spans,
    subparsers,
    would_do,
)


def synopses(text: str) -> dict[str, str]:
    """The first code span of each section `### NAME`: how the command is called."""
    parts = re.findall(r"^### (\S+)\n(.*?)(?=^#)", text, re.MULTILINE | re.DOTALL)
    return {name: found[0] for name, part in parts if (found := spans(part)) and found[0].startswith("headway ")}


def test_every_flag_and_argument_there_is_stands_in_its_commands_section():
    text = read("docs/commands.md")
    found = synopses(text)
    common = {"--help", "--device", "--average", "--limit", "--debug"}
    assert common <= flags_in(text)
    assert flags_of(build_parser()) <= flags_in(text)
    assert found.keys() == subparsers().keys()
    for name, parser in subparsers().items():
        assert found[name].split()[:2] == ["headway", name]
        missing = flags_of(parser) - common - flags_in(found[name])
        assert not missing, f"docs/commands.md, headway {name}: {missing}"
        for action in parser._actions:
            assert action.option_strings or action.metavar in found[name], f"headway {name}: no {action.metavar}"


def with_recipe() -> list[str]:
    return [name for name, preset in PRESETS.items() if preset.run is not None]


def parses_somewhere(words: list[str], *, first: str | None = None) -> bool:
    """Whether these settings are settings of some preset."""
    for name in [first] if first else with_recipe():
        try:
            override(PRESETS[name].recipe(), overrides_of(words))
        except ConfigError:
            continue
        return True
    return False


@pytest.mark.parametrize("document", [*DOCUMENTS, RESULTS])
def test_every_setting_and_flag_within_a_line_is_one(document):
    known = flags_of_labs().union(*map(flags_of, [build_parser(), *subparsers().values()]))
    for span in spans(read(document)):
        if not span.startswith("--") or re.search(r"\b[A-Z]{2,}\b", span):
            continue
        assert flags_in(span) <= known, f"{document}: {span}"
        if "." in span.split()[0]:
            assert parses_somewhere(shlex.split(span)), f"{document}: {span}"


def parses(command: str) -> None:
    """Hold a command to the parser, and a training's settings to its preset. `N` stands for a number."""
    words = [re.sub(r"^N$", "1", word) for word in shlex.split(command)][1:]
    arguments, rest = build_parser().parse_known_args(words)
    arguments.overrides = rest
    if arguments.command == "train":
        resolve(arguments)
        return
    if arguments.command == "lab" and arguments.name == "all":
        assert not rest, command
        return
    if arguments.command == "lab":
        LABS[arguments.name].with_flags(overrides_of(rest))
        return
    assert not rest, command
    there = {"bench": BENCHES}.get(arguments.command)
    assert there is None or arguments.name in there, command


def test_the_commands_of_the_results_parse():
    found = []
    for span in spans(read(RESULTS)):
        if span.split()[0] in PRESETS and " --" in span:
            found.append(f"headway train {span}")
        elif span.startswith("headway ") and len(span.split()) > 2:
            found.append(span)
        elif span.startswith("make "):
            would_do(span.split()[1])
    assert len(found) > 10
    for command in found:
        parses(command)


def test_a_wrong_setting_in_a_document_would_be_noticed():
    with pytest.raises(ConfigError, match="did you mean width"):
        parses("headway train gpt-char --data S --model.widht 3")
    assert not parses_somewhere(["--model.widht", "3"])


def test_every_training_setting_is_documented():
    text = " ".join(spans(read("docs/training.md")))
    missing = [field.name for field in dataclasses.fields(TrainConfig) if field.name not in text]
    assert not missing


def test_every_extra_that_is_named_exists():
    extras = tomllib.loads(read("pyproject.toml"))["project"]["optional-dependencies"]
    sources = "".join(path.read_text() for path in (ROOT / "src").rglob("*.py"))
    written = sources + "".join(map(read, DOCUMENTS))
    named = set(re.findall(r"headway\[(\w+)\]", written))
    named |= {name for found in re.findall(r"'\.\[([\w,]+)\]'", written) for name in found.split(",")}
    assert {"hf", "parquet", "tensorboard"} <= named <= set(extras)


def test_the_readme_installs_without_the_tools_of_developers_and_lists_the_extras():
    """TRIALS B friction "no `pip install` line": the README had `make venv` only."""
    text = read("README.md")
    assert "\npip install . " in text
    extras = tomllib.loads(read("pyproject.toml"))["project"]["optional-dependencies"]
    listed = re.search(r"the same with extras: (.*), or all\n", text)[1].split(", ")
    assert listed == [name for name in extras if name in EXTRAS]
