"""The shell functions that the scripts of bash and zsh share: the options, values and config keys, one `case` each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from headway.cli.completion.grammar import ANYTHING, Grammar, OptionWords

FUNCTIONS = r"""_headway_options() {  # the options of a command, and those of them that take a value
  case $1 in
__OPTIONS__
    *) options='__TOP__' valued='' first='__FIRST__' rest=@anything ;;
  esac
}

_headway_value() {  # what an option of a command takes
  case "$1 $2" in
__VALUES__
    *' --limit') takes='__LIMITS__' ;;
    *) takes=@anything ;;
  esac
}

_headway_keys() {  # the config keys of a preset
  case $1 in
__KEYS__
    *) keys='__COMMON__' ;;
  esac
}"""


def shared_functions(grammar: Grammar, first: str) -> str:
    """The three functions; `first` completes a command line without a command."""
    return (
        FUNCTIONS.replace("__OPTIONS__", "\n".join(_command_arms(grammar)))
        .replace("__TOP__", " ".join(_flags(grammar.options)))
        .replace("__FIRST__", first)
        .replace("__VALUES__", "\n".join(_value_arms(grammar)))
        .replace("__LIMITS__", _limits(grammar))
        .replace("__KEYS__", "\n".join(_key_arms(grammar)))
        .replace("__COMMON__", _common_keys(grammar))
    )


def _command_arms(grammar: Grammar) -> Iterator[str]:
    """The options of each command, those that take a value, and what its arguments can be."""
    for command in grammar.commands:
        valued = _flags(option for option in command.options if option.takes is not None)
        yield (
            f"    {command.name}) options='{' '.join(_flags(command.options))}' valued='{' '.join(valued)}' "
            f"first='{command.first}' rest='{command.rest}' ;;"
        )


def _value_arms(grammar: Grammar) -> Iterator[str]:
    """What each option and config key takes, where that is known."""
    for command in grammar.commands:
        for option in command.options:
            if option.takes not in (None, ANYTHING) and "--limit" not in option.flags:
                patterns = "|".join(f"'{command.name} {flag}'" for flag in option.flags)
                yield f"    {patterns}) takes='{option.takes}' ;;"
    for key, words in grammar.values.items():
        yield f"    *' --{key}') takes='{words}' ;;"


def _key_arms(grammar: Grammar) -> Iterator[str]:
    """The config keys, once for all presets that have the same."""
    presets: dict[tuple[str, ...], list[str]] = {}
    for name, keys in grammar.keys.items():
        presets.setdefault(keys, []).append(name)
    for keys, names in presets.items():
        yield f"    {'|'.join(names)}) keys='{' '.join(key for key in keys if '.' in key)}' ;;"


def _common_keys(grammar: Grammar) -> str:
    """The config keys that every preset has, for a preset that is not known."""
    of_all = [set(keys) for keys in grammar.keys.values()]
    first = next(iter(grammar.keys.values()), ())
    return " ".join(key for key in first if "." in key and all(key in keys for keys in of_all))


def _flags(options: Iterable[OptionWords]) -> list[str]:
    """All spellings of some options."""
    return [flag for option in options for flag in option.flags]


def _limits(grammar: Grammar) -> str:
    """What `--limit` takes, of every command."""
    every = (option for command in grammar.commands for option in command.options)
    return next(option.takes or "" for option in every if "--limit" in option.flags)
