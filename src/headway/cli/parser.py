"""The argument parser, built from the command modules."""

from __future__ import annotations

from argparse import Action, ArgumentError, ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Collection, Iterable, Sequence
from typing import Any, NoReturn, cast

from headway import __version__
from headway.cli import options
from headway.cli.commands import COMMANDS, command
from headway.cli.terminal import tell
from headway.errors import shown
from headway.suggestions import did_you_mean

EPILOG = """examples:
  headway demo                                        an English-French transformer on built-in data, in minutes
  headway train gpt-char --data book.txt              a character model of your own text, into runs/gpt-char
  headway train transformer-tiny --data corpus --source en --target de --budget 10m --out runs/en-de
  headway info runs/en-de                             what a run is, how good, and what it can do
  headway evaluate runs/en-de --split test            BLEU with its signature, chrF, intervals
  echo "a cute puppy" | headway translate runs/en-de
  headway translate runs/en-de "a cute puppy" --trace beam.jsonl
  headway trace beam.jsonl                            which hypotheses the beam kept and pruned, and why
  headway generate runs/gpt-char "ROMEO:"
  headway lab sentences                               a language model of three sentences
  headway presets gpt2                                source, size, departures from the paper
  headway help train                                  what a command does, its options and examples

Sizes and lengths have limits; --limit NAME=N after a command sets one, and docs/commands.md lists them.
"""


HELP = "help"  # `headway help CMD`; no command of its own, so that it takes what a command takes
TAKE_OVERRIDES = ("train", "estimate", "prepare", "lab")  # commands with --KEY.SUB VALUE
TAKE_UNKNOWN = ("train",)  # of these, those whose every unknown option has a value: a config key without its section


class OneLineParser(ArgumentParser):
    """A parser whose errors are one line each; argparse would print the usage of all options above it."""

    color = False  # from Python 3.14 on argparse colours its help, which headway.cli.terminal would take for data

    def error(self, message: str) -> NoReturn:
        """Print what is wrong with the words of the command line, and exit with code 2."""
        tell(f"{message} ({self.prog} --help)")
        self.exit(2)

    def _get_values(self, action: Action, arg_strings: list[str]) -> Any:
        """The value of an option; before Python 3.13 argparse makes an empty list of `--prefix=--`."""
        if action.option_strings and action.nargs is None and arg_strings == ["--"]:
            value = self._get_value(action, "--")
            self._check_value(action, value)
            return value
        return super()._get_values(action, arg_strings)

    def _check_value(self, action: Action, value: Any) -> None:
        """Raise ArgumentError for a value that is not one of an option's choices, and suggest the nearest choice."""
        if action.choices is not None and value not in action.choices:
            allowed = list(map(str, action.choices))
            hint = did_you_mean(str(value), allowed)
            raise ArgumentError(action, f"{shown(value)}: {hint}choose from {', '.join(allowed)}")


def parse(words: Sequence[str]) -> Namespace:
    """The arguments of one command, `command` being its name, or None without a command.

    `overrides` has the words that commands of TAKE_OVERRIDES leave for the config. Raises SystemExit, as argparse does.
    """
    words = _asked_for_help(words)
    parser = build_parser(named_commands(words))
    called = _called(words)
    if called is not None and called not in COMMANDS:
        _unknown_command(parser, called)
    own = _own_parser(parser, called)
    words, overrides = (
        _split(words, _flags(own) if called in TAKE_UNKNOWN else None) if called in TAKE_OVERRIDES else (words, [])
    )
    arguments, rest = parser.parse_known_args(words)
    rest = _given_behind_options(own, arguments, rest)
    further = getattr(command(called), "flags", None) if called in COMMANDS else None
    mistyped, hint = _mistyped(own, [*overrides, *rest], further(arguments) if further is not None and rest else ())
    if rest and arguments.command not in TAKE_OVERRIDES:
        own.error(f"unknown arguments: {' '.join(rest)}{f'; {hint}' if hint else ''}")
    if mistyped:
        own.error(f"unknown option {mistyped}: {hint}")
    if arguments.command is None:
        parser.print_help()
    arguments.overrides = [*overrides, *rest]
    return arguments


def named_commands(argv: Sequence[str]) -> Iterable[str]:
    """The commands a parser of these words needs: the one that is called, or all of them."""
    word = _called(argv)
    return (word,) if word in COMMANDS else COMMANDS


def build_parser(names: Iterable[str] = COMMANDS) -> ArgumentParser:
    """A parser that knows these commands; only their modules are imported."""
    parser = OneLineParser(
        prog="headway",
        allow_abbrev=False,
        description="Train, use and inspect transformers.",
        epilog=EPILOG,
        formatter_class=RawDescriptionHelpFormatter,
    )
    parser.add_argument("-V", "--version", action="version", version=f"headway {__version__}")
    parser.add_argument("--debug", action="store_true", help="show the traceback of an error")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    for name in names:
        module = command(name)
        title = "examples" if len(module.EXAMPLES) > 1 else "example"
        own = commands.add_parser(
            name,
            allow_abbrev=False,
            help=module.HELP,
            description=module.HELP,
            epilog="\n  ".join([f"{title}:", *module.EXAMPLES]) if module.EXAMPLES else None,
            formatter_class=RawDescriptionHelpFormatter,
            add_help=not getattr(module, "OWN_HELP", False),
        )
        module.add_arguments(own)
        options.add_common(own)
    return parser


def usage(name: str, run: str) -> str:
    """A command with its arguments, the first of them being this run: "translate runs/en-de TEXT"."""
    own = _own_parser(build_parser([name]), name)
    rest = [str(action.metavar) for action in own._actions if not action.option_strings][1:]
    return " ".join([name, run, *rest])


def _asked_for_help(words: Sequence[str]) -> list[str]:
    """`help train` as `train --help`, and `help` as `--help`."""
    if _called(words) != HELP:
        return list(words)
    at = list(words).index(HELP)
    return [*words[:at], *words[at + 1 :], "--help"]


def _unknown_command(parser: ArgumentParser, word: str) -> NoReturn:
    """Stop with the commands that do what an unknown word asks for, or the nearest one and all there are."""
    from headway.cli.intents import meant  # for mistakes only

    hint = meant(word, COMMANDS) or f"{did_you_mean(word, COMMANDS)}there are {', '.join(COMMANDS)}"
    parser.error(f"no command {shown(word)}: {hint}")


def _mistyped(parser: ArgumentParser, words: Sequence[str], further: Collection[str] = ()) -> tuple[str, str]:
    """The first unknown option that is near a known one, and the hint: `--bem`, `did you mean --beam?`; or nothing.

    Options without a dot only: `--train.steps` is a config key. `further` are options that the parser does not declare:
    the flags of one lab.
    """
    known = _flags(parser)
    for word in words:
        name = word.partition("=")[0]
        if name in further:
            continue
        if name.startswith("--") and "." not in name and (hint := did_you_mean(name, known)):
            return name, hint.strip()
    return "", ""


def _flags(parser: ArgumentParser) -> list[str]:
    """The long options that a parser knows."""
    return [flag for action in parser._actions for flag in action.option_strings if flag.startswith("--")]


def _split(words: Sequence[str], known: Collection[str] | None) -> tuple[list[str], list[str]]:
    """Words for argparse, and config keys with their values, which it would take for arguments: `--train.steps 9`.

    With the options that are `known`, also any other option, such as `--lr 0.1`.
    """
    rest, overrides, left = [], [], list(words)
    while left:
        word = left.pop(0)
        name, equals, _ = word.partition("=")
        unknown = known is not None and len(name) > 2 and name not in known
        if not (name.startswith("--") and ("." in name or unknown)):
            rest.append(word)
            continue
        overrides.append(word)
        if not equals and left and not left[0].startswith("--"):
            overrides.append(left.pop(0))
    return rest, overrides


def _called(words: Sequence[str]) -> str | None:
    """The name of the command, known or not: no option before it takes a value."""
    return next((word for word in words if not word.startswith("-")), None)


def _own_parser(parser: ArgumentParser, name: str | None) -> ArgumentParser:
    """The parser of a command, or that of the program."""
    for action in parser._actions:
        if isinstance(action.choices, dict) and name in action.choices:
            return cast(ArgumentParser, action.choices[name])
    return parser


def _given_behind_options(parser: ArgumentParser, arguments: Namespace, rest: list[str]) -> list[str]:
    """Take TEXT in `score RUN --tokens TEXT`, which argparse before Python 3.13 leaves over; what is left then."""
    for action in parser._actions:
        empty = not action.option_strings and not getattr(arguments, action.dest, None)
        if empty and action.nargs == "*" and not any(word.startswith("-") for word in rest):
            setattr(arguments, action.dest, rest)
            return []
        if empty and action.nargs == "?" and (at := _first_argument(rest)) is not None:
            setattr(arguments, action.dest, rest[at])
            rest = [*rest[:at], *rest[at + 1 :]]
    return rest


def _first_argument(words: Sequence[str]) -> int | None:
    """Where the first word is that is neither an option nor the value of one; None if every word is."""
    at = 0
    while at < len(words):
        if not words[at].startswith("-"):
            return at
        at += 1 if "=" in words[at] else 2
    return None
