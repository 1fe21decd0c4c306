"""What can stand on the command line, read from the parser, the presets and their configs.

Every name is written into a script that a shell runs: those that are not plain words are left out.
"""

from __future__ import annotations

import re
from argparse import Action, ArgumentParser
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from headway.bench import BENCHES
from headway.cli.commands import COMMANDS, command
from headway.cli.parser import build_parser
from headway.config_help import keys_of
from headway.errors import ConfigError
from headway.labs.registry import LABS
from headway.limits import LIMITS
from headway.presets import PRESETS
from headway.reliability.rows import ROWS

# What a word can be, beside one of some words.
RUNS, FILES, FOLDERS, ANYTHING = "@runs", "@files", "@folders", "@anything"
WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*")
BY_METAVAR = {
    "RUN": RUNS, "RUN2": RUNS, "DIR": FOLDERS, "FOLDER": RUNS, "FILE": FILES, "SPEC": FILES, "IMAGE": FILES,
    "INPUT": FILES,
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionWords:
    """An option: its spellings, what it takes (None for a flag, else a kind above or words) and what it is for."""

    flags: tuple[str, ...]
    takes: str | None
    meaning: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandWords:
    """A command: its options, and what its first argument and the others can be."""

    name: str
    meaning: str
    options: tuple[OptionWords, ...]
    first: str
    rest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Grammar:
    """The whole command line."""

    commands: tuple[CommandWords, ...]
    options: tuple[OptionWords, ...]  # before a command
    keys: Mapping[str, tuple[str, ...]]  # the config keys of each preset that can be trained
    values: Mapping[str, str]  # of config keys that take one of some words
    meanings: Mapping[str, str]  # of config keys


def read_grammar() -> Grammar:
    """The command line as it is, with what installed packages add."""
    parser = build_parser()
    parsers = next(action.choices for action in parser._actions if isinstance(action.choices, dict))
    presets = _presets()
    first = {
        "train": _words(presets), "presets": _words(PRESETS), "lab": _words([*LABS, "all"]), "bench": _words(BENCHES),
        "reliability": _words(ROWS),
    }  # fmt: skip
    keys = [key for found in presets.values() for key in found]
    return Grammar(
        commands=tuple(_command(name, parsers[name], first.get(name)) for name in COMMANDS),
        options=tuple(_options(parser)),
        keys={name: tuple(path for path, _, _ in found) for name, found in presets.items()},
        values=_values(keys),
        meanings={path: meaning for path, _, meaning in keys},
    )


def _command(name: str, parser: ArgumentParser, names: str | None) -> CommandWords:
    positionals = [action for action in parser._actions if not action.option_strings]
    kinds = [_takes(action) or ANYTHING for action in positionals]
    own = names or (kinds[0] if kinds else ANYTHING)
    actions = _words(getattr(command(name), "ACTIONS", ()))  # "compare" and "clean" of `runs`
    repeated = bool(positionals) and positionals[-1].nargs in ("*", "+")
    rest = kinds[1] if len(kinds) > 1 else own if repeated else ANYTHING
    return CommandWords(
        name=name,
        meaning=command(name).HELP,
        options=tuple(_options(parser)),
        first=f"{actions} {own}" if actions and own != actions else own,
        rest=rest,
    )


def _options(parser: ArgumentParser) -> Iterable[OptionWords]:
    for action in parser._actions:
        if action.option_strings:
            meaning = (action.help or "").replace("%(default)s", str(action.default)).replace("%%", "%")
            yield OptionWords(flags=tuple(action.option_strings), takes=_takes(action), meaning=meaning)


def _takes(action: Action) -> str | None:
    """What an argument takes: words if it has choices, else what its metavar says; None for a flag."""
    if action.nargs == 0:
        return None
    if action.choices is not None:
        return _words(map(str, action.choices))
    metavar = action.metavar if isinstance(action.metavar, str) else ""
    if metavar == "NAME=N":
        return _words(LIMITS, "=")
    for part in (metavar, metavar.split(".")[0], metavar.split(",")[0]):
        if part in BY_METAVAR:
            return BY_METAVAR[part]
    return ANYTHING


def _presets() -> dict[str, list[tuple[str, str, str]]]:
    """The presets that can be trained: path, type and meaning of their config keys. A broken plugin is left out."""
    found = {}
    for name in PRESETS:
        try:
            recipe = PRESETS[name].recipe()
        except ConfigError:
            continue
        if WORD.fullmatch(name):
            found[name] = [(key.path, key.type, key.meaning) for key in keys_of(recipe) if WORD.fullmatch(key.path)]
    return found


def _values(keys: Iterable[tuple[str, str, str]]) -> dict[str, str]:
    """The words that a key takes, where its type has some: "fp32 | bf16"; of all presets together."""
    found: dict[str, dict[str, None]] = {}
    for path, type_, _ in keys:
        if " | " in type_:
            found.setdefault(path, {}).update(dict.fromkeys(type_.split(" | ")))
    types = ("int", "float", "str", "bool")
    words = {path: _words(word for word in names if word not in types) for path, names in found.items()}
    return {path: text for path, text in words.items() if text}


def _words(names: Iterable[str], ending: str = "") -> str:
    return " ".join(f"{name}{ending}" for name in names if WORD.fullmatch(name))
