"""Random command lines, drawn from the argument parsers themselves.

`grammar` walks a parser: every command with its positionals and options, their types and choices. `draw` makes a
command line of it: mostly allowed values with one or a few that are not, as people and scripts make them. An option
added to a command is drawn from without a change here.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

INTEGERS = (
    "0", "-1", "1", "2", "3", "7", "1000", "100001", "2147483647", "2147483648", "9223372036854775807",
    "9223372036854775808", "-9223372036854775809", "99999999999999999999", "1" + "0" * 400, "9" * 5000, "0x10",
    "1_000", "1e3",
    "1.0", " 1 ", "+1", "-0", "٣", "Ⅷ", "²", "1,2", "", "x", "nan", "inf", "--1", "1\n2",
)  # fmt: skip
NUMBERS = (
    "0", "-0.0", "1", "0.5", "-1", "1.0000001", "1e-320", "1e308", "-1e308", "1e309", "nan", "-nan", "inf", "-inf",
    "infinity", "0x1p3", "1e", "1_0.5", ",5", "", "x", "9" * 400, "1e-9999999999", "٣", "1 2",
)  # fmt: skip
TEXTS = (
    "", " ", "a", "I like dogs", "3 1 2", "3 1 2\t2 1 3", "\t", "\n", "a\nb", "\r", "\x1b[31mred\x1b[0m",
    "\x1b]0;title\x07",
    "\x7f", "\x01\x02\x03", "é", "e\u0301", "😀", "\u202eabc", "\u2028", "\ufeff", "\udcff\udcfe", "a\udc80b", "<mask>",
    "<s>", "</s>", "<pad>", "<unk>", "--", "-", "-x", "--beam", "=", "a=b", "%s%n", "$(touch canary)", "`touch canary`",
    "; touch canary", "{}", "[1]", "null", "x" * 3000, "a " * 500, "(a+)+$" + "a" * 40 + "!", "@file", "~", "*", "?",
    "\\", "'", '"',
)  # fmt: skip
LISTS = (
    "",
    ",",
    "1",
    "1,2",
    "8,16",
    "0",
    "-1",
    "x",
    "1,,2",
    "1,x",
    "99999999999999999999",
    "nan",
    "1;2",
    "4," * 400 + "4",
)
SMALL = ("1", "2", "3")
# Options that say how much is to be done, and have no limit: a large value is an order, and no hang.
WORK = ("episodes", "steps", "seeds", "num")
REFUSED_COUNTS = ("x", "", "-1", "0", "nan", "1.5", "9" * 5000)
LIKELY = 0.7  # the share of command lines with one of the commands that the run has
RARE = 0.01  # the share of options that every command has: --help, which leaves all else unread, and --limit


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionGrammar:
    """One argument of a command, as its parser declares it."""

    flags: tuple[str, ...]  # () for a positional
    name: str
    kind: str  # "flag", "integer", "number" or "text"
    metavar: str = ""
    choices: tuple[str, ...] = ()
    required: bool = False
    repeated: bool = False  # any number of values


@dataclass(frozen=True, slots=True)
class CommandGrammar:
    """One command with its arguments."""

    name: str
    options: tuple[OptionGrammar, ...]
    positionals: tuple[OptionGrammar, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """What the words of a command line may stand for, each as it would be typed."""

    likely: Sequence[str] = ()  # commands that work on the runs
    runs: Sequence[str] = ("run",)
    files: Sequence[str] = ("file",)  # that exist, that do not, and that are no regular files
    values: Mapping[str, Sequence[str]] = field(
        default_factory=dict
    )  # allowed values by "COMMAND.ARGUMENT" or "ARGUMENT"
    keys: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # config keys with their types, by command
    last: Mapping[str, Sequence[str]] = field(
        default_factory=dict
    )  # words put last, by command: they keep its work small


def grammar(parser: argparse.ArgumentParser) -> dict[str, CommandGrammar]:
    """The commands of a parser by name."""
    found: dict[str, CommandGrammar] = {}
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, below in action.choices.items():
                arguments = [_argument(each) for each in below._actions]
                options = tuple(each for each in arguments if each.flags)
                found[name] = CommandGrammar(name, options, tuple(each for each in arguments if not each.flags))
    return found


def _argument(action: argparse.Action) -> OptionGrammar:
    """How an argument is declared. A type that is a function is tried: what takes "1" and not "x" is a number."""
    return OptionGrammar(
        flags=tuple(action.option_strings),
        name=action.dest,
        kind="flag" if action.nargs == 0 else _kind(action.type),
        metavar=str(action.metavar or ""),
        choices=tuple(map(str, action.choices or ())),
        required=action.required,
        repeated=action.nargs in ("*", "+"),
    )


def _kind(declared: object) -> str:
    if declared is None or declared is str or not callable(declared):
        return "text"
    taken = {word: _takes(declared, word) for word in ("2", "2.5", "x")}
    if not taken["2"] or taken["x"]:
        return "text"
    return "number" if taken["2.5"] else "integer"


def _takes(declared: Callable[[str], object], word: str) -> bool:
    try:
        declared(word)
    except (ValueError, TypeError, argparse.ArgumentTypeError):
        return False
    return True


def draw(commands: Mapping[str, CommandGrammar], names: Names, chance: Random) -> list[str]:
    """One command line, without the program's name."""
    if chance.random() < 0.02:
        return [_word(names, chance) for _ in range(chance.randint(0, 4))]
    likely = names.likely and chance.random() < LIKELY
    command = commands[chance.choice(names.likely if likely else sorted(commands))]
    every = [each for each in (*command.positionals, *command.options) if each.kind != "flag"]
    every = [each for each in every if each.name != "limit"] or every
    # Half of the lines have one value that may be anything, so that the others let it get far; the rest have several.
    # Numbers are more often odd than names, at which a command ends before it has begun.
    often = [4.0 if each.kind != "text" else 0.3 if each in command.positionals else 1.0 for each in every]
    odd = chance.choices(every, often)[0] if every and chance.random() < 0.5 else None
    wild = 0.0 if odd else chance.choice((0.0, 0.05, 0.15, 0.4))
    words: list[str] = []
    for each in command.positionals:
        count = chance.choice((1, 1, 1, 2, 0)) if each.repeated else 1 if each.required or chance.random() < 0.7 else 0
        count = 1 if each is odd else count
        words += [_value(command, each, names, chance, 1.0 if each is odd else wild) for _ in range(count)]
    for each in command.options:
        share = RARE if each.name in ("help", "limit") else (1.0 if odd else 2.5) / len(command.options)
        if not each.required and each is not odd and chance.random() > share:
            continue
        flag = chance.choice(each.flags)
        if each.kind == "flag":
            words.append(flag)
            continue
        value = _value(command, each, names, chance, 1.0 if each is odd else wild)
        words += [f"{flag}={value}"] if chance.random() < 0.5 and flag.startswith("--") else [flag, value]
    if command.name in names.keys:
        words += [_setting(names.keys[command.name], names, chance) for _ in range(chance.choice((0, 1, 1, 1, 2)))]
    if chance.random() < 0.1 * (odd is None):
        words.insert(chance.randrange(len(words) + 1), _word(names, chance))
    if chance.random() < 0.08 * (odd is None) and words:
        del words[chance.randrange(len(words))]
    return [command.name, *words, *names.last.get(command.name, ())]


def _value(command: CommandGrammar, argument: OptionGrammar, names: Names, chance: Random, wild: float) -> str:
    """A value for an argument: with a probability of `wild` anything, else what it takes."""
    anything = chance.random() < wild
    if argument.name in WORK:
        return chance.choice(REFUSED_COUNTS if anything else SMALL)
    if argument.kind == "integer":
        return chance.choice(INTEGERS if anything else SMALL)
    if argument.kind == "number":
        return chance.choice(NUMBERS if anything else ("0", "0.5", "1", "0.9"))
    known = names.values.get(f"{command.name}.{argument.name}") or names.values.get(argument.name) or argument.choices
    if anything and not (argument.choices and chance.random() < 0.8):  # the parser refuses these before all else
        texts = "TEXT" in argument.metavar and chance.random() < 0.8
        return chance.choice(TEXTS) if texts else _word(names, chance)
    if known:
        return chance.choice(known)
    if argument.metavar.startswith("RUN"):
        return chance.choice(names.runs)
    if argument.metavar.startswith("FILE.") and chance.random() < 0.7:
        return f"made.{argument.metavar.partition('.')[2]}"
    if argument.metavar.partition(".")[0] in ("FILE", "DIR", "IMAGE", "SPEC", "INPUT"):
        return chance.choice(names.files)
    if "," in argument.metavar:
        return chance.choice(LISTS)
    return chance.choice(TEXTS)


def _setting(keys: Mapping[str, str], names: Names, chance: Random) -> str:
    """A config key with a value: of its type, at the edge of it, or any."""
    key = chance.choice(sorted(keys)) if chance.random() < 0.95 else _word(names, chance)
    kind = keys.get(key, "")
    pools: list[Sequence[str]] = [INTEGERS, NUMBERS, TEXTS, LISTS]
    likely = [word for word in kind.split(" | ") if word.isidentifier()] if " | " in kind else []
    likely = ["true", "false"] if kind == "bool" else likely
    fitting = INTEGERS if "int" in kind else NUMBERS if "float" in kind else likely or TEXTS
    return f"--{key}={chance.choice(fitting if chance.random() < 0.7 else chance.choice(pools))}"


def _word(names: Names, chance: Random) -> str:
    """Any word at all."""
    return chance.choice(chance.choice((TEXTS, INTEGERS, NUMBERS, names.files, names.runs)))
