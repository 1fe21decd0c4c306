"""Random command lines: they come from the parsers, reach every option, and cannot harm the machine they run on."""

from __future__ import annotations

import argparse
import random
import shlex

from headway.cli.commands import COMMANDS
from headway.cli.parser import build_parser
from headway.reliability import command_lines
from headway.reliability.command_lines import Names, draw, grammar


def some_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser()
    below = parser.add_subparsers().add_parser("do")
    below.add_argument("run", metavar="RUN")
    below.add_argument("text", nargs="*")
    below.add_argument("--count", type=int)
    below.add_argument("--rate", type=float)
    below.add_argument("--kind", choices=("a", "b"))
    below.add_argument("--flag", action="store_true")
    return parser


def test_a_grammar_is_what_the_parser_declares():
    command = grammar(some_parser())["do"]
    kinds = {option.name: option.kind for option in command.options}
    assert kinds == {"help": "flag", "count": "integer", "rate": "number", "kind": "text", "flag": "flag"}
    assert [(each.name, each.repeated) for each in command.positionals] == [("run", False), ("text", True)]
    assert next(each for each in command.options if each.name == "kind").choices == ("a", "b")


def test_every_command_and_every_option_is_drawn():
    commands = grammar(build_parser())
    assert set(commands) == set(COMMANDS)
    drawn = [draw(commands, Names(), random.Random(seed)) for seed in range(30_000)]
    for name, command in commands.items():
        words = {word.partition("=")[0] for line in drawn if line and line[0] == name for word in line}
        missing = [each.flags for each in command.options if not words & set(each.flags)]
        assert missing == [], name


def test_the_same_seed_gives_the_same_line():
    commands = grammar(build_parser())
    names = Names(keys={"train": {"train.steps": "int"}}, last={"train": ["--train.steps=1"]})
    for seed in range(200):
        line = draw(commands, names, random.Random(seed))
        assert line == draw(commands, names, random.Random(seed))
        if line[:1] == ["train"]:
            assert line[-1] == "--train.steps=1"


def test_no_word_leads_out_of_the_folder_of_a_trial():
    """Trials may run as root: a word such as /dev/null as an output would be the end of it."""
    pools = (command_lines.TEXTS, command_lines.INTEGERS, command_lines.NUMBERS, command_lines.LISTS)
    for word in (word for pool in pools for word in pool):
        assert not word.startswith(("/", "~/", "..")), shlex.quote(word)
        assert "/../" not in word
        assert "\0" not in word  # no command line can have it
