"""docs/api.md is current and complete, and what a command can do, `Run` can do with the same options."""

from __future__ import annotations

import inspect
import re
from argparse import Action

import pytest

import headway
from headway.cli.commands import COMMANDS
from headway.runs import Run
from tools import api_docs

# Options whose default is not that of the parameter, and why.
OTHER_DEFAULTS = {
    ("translate", "n_best"): "the shell prints one line; Python gives a str for one and a list for `n_best`",
    ("look", "out"): "the shell writes a file; Python returns the page",
    ("generate", "prompt"): "the shell reads stdin without one; Python continues a line break",
    ("generate", "num"): "how many texts; Python gives one, by its number",
}


def on_a_run() -> list[str]:
    return [name for name in COMMANDS if "run" in api_docs.actions(name)]


def test_the_page_is_current():
    assert api_docs.PAGE.read_text() == api_docs.page(), "run `make api-docs`"


def test_the_page_has_every_public_name():
    text = api_docs.PAGE.read_text()
    missing = [name for name in headway.__all__ if f"### `headway.{name}`" not in text]
    assert not missing
    public = [name for name in vars(Run) if not name.startswith("_")]
    assert sorted(public) == sorted(api_docs.public_methods(Run))
    for name in public:
        entry = text.partition(f"#### `Run.{name}`\n")[2].partition("\n#")[0]
        assert inspect.getdoc(getattr(Run, name)) in entry, name


def test_everything_listed_is_documented():
    for name in api_docs.names():
        assert inspect.getdoc(api_docs.resolved(name)), name


def test_every_name_that_the_table_of_commands_has_exists():
    text = " ".join(
        [
            *api_docs.OTHER_COMMANDS.values(),
            *(how for each in api_docs.RUN_COMMANDS.values() for how in each.outputs.values()),
        ]
    )
    found = re.findall(r"headway(?:\.\w+)+", text)
    assert len(found) > 10
    for name in found:
        assert api_docs.resolved(name) is not None, name


def test_every_command_is_in_a_table():
    assert sorted(api_docs.RUN_COMMANDS) == sorted(on_a_run())
    assert sorted([*api_docs.RUN_COMMANDS, *api_docs.OTHER_COMMANDS]) == sorted(COMMANDS)


def options(name: str) -> dict[str, Action]:
    """The arguments and options of a command that are not about loading or output."""
    outputs = api_docs.RUN_COMMANDS[name].outputs
    given = api_docs.actions(name)
    assert set(outputs) <= set(given)
    return {dest: each for dest, each in given.items() if dest not in (*api_docs.LOADED, *outputs)}


@pytest.mark.parametrize("name", api_docs.RUN_COMMANDS)
def test_every_option_of_a_command_is_a_parameter_of_its_method(name):
    command = api_docs.RUN_COMMANDS[name]
    parameters = inspect.signature(getattr(Run, command.method)).parameters
    missing = [dest for dest in options(name) if command.renamed.get(dest, dest) not in parameters]
    assert not missing, f"headway {name}: no parameter of Run.{command.method} for {missing}"


@pytest.mark.parametrize("name", api_docs.RUN_COMMANDS)
def test_the_defaults_are_the_same(name):
    command = api_docs.RUN_COMMANDS[name]
    parameters = inspect.signature(getattr(Run, command.method)).parameters
    for dest, action in options(name).items():
        if action.option_strings and not action.required and (name, dest) not in OTHER_DEFAULTS:
            default = parameters[command.renamed.get(dest, dest)].default
            assert (default or None) == (action.default or None), f"headway {name} --{dest}"


def test_what_loading_takes_is_a_parameter_of_load():
    parameters = inspect.signature(headway.load).parameters
    assert set(api_docs.LOADED) - {"run"} <= set(parameters)
    for name in on_a_run():
        for dest, action in api_docs.actions(name).items():
            if dest in ("device", "precision", "average", "adapter") and (name, dest) != ("export", "adapter"):
                assert parameters[dest].default == action.default, f"headway {name} --{dest}"


def test_a_name_that_is_not_there_would_be_noticed():
    with pytest.raises(ImportError):
        api_docs.resolved("headway.runs.Ron")
