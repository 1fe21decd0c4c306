"""The completion script of fish, which shows what each word is for."""

from __future__ import annotations

from collections.abc import Iterator

from headway.cli.completion.grammar import ANYTHING, FILES, FOLDERS, RUNS, CommandWords, Grammar, OptionWords

SCRIPT = r"""# fish completion for headway, written by `headway completion fish`

function __headway_runs
    for file in runs/*/config.yaml
        string replace -r '/config\.yaml$' '' -- $file
    end
    __fish_complete_directories (commandline -ct)
end

function __headway_words --description 'the words after headway that are no options, without the values of options'
    set -l words (commandline -opc)
    set -l skip
    for word in $words[2..-1]
        if set -q skip[1]
            set -e skip
            continue
        end
        switch $word
            case '-*=*'
            case '-*'
                contains -- $word __VALUED__; or string match -qr '^--.+\..+' -- $word; and set skip 1
            case '*'
                echo $word
        end
    end
end

function __headway_at --description 'whether the command is this one, and this number of arguments follow it'
    set -l words (__headway_words)
    test "$words[1]" = "$argv[1]"; or return 1
    set -l count (math (count $words) - 1)
    switch "$argv[2]"
        case first
            test $count -eq 0
        case rest
            test $count -gt 0
        case ''
            true
    end
end

function __headway_trains --description 'whether one of these presets is trained'
    set -l words (__headway_words)
    contains -- "$words[1]" train lab; and contains -- "$words[2]" $argv
end

complete -c headway -f
"""


def script(grammar: Grammar) -> str:
    """The script."""
    flags = (flag for command in grammar.commands for each in command.options if each.takes for flag in each.flags)
    lines = [SCRIPT.replace("__VALUED__", " ".join(dict.fromkeys(flags)))]
    lines += [_option("test (count (__headway_words)) -eq 0", option) for option in grammar.options]
    for command in grammar.commands:
        lines += _command(command)
    lines += _keys(grammar)
    return "\n".join(lines) + "\n"


def _command(command: CommandWords) -> Iterator[str]:
    none = _quoted("test (count (__headway_words)) -eq 0")
    yield f"complete -c headway -n {none} -a {command.name} -d {_quoted(command.meaning)}"
    for place, takes in (("first", command.first), ("rest", command.rest)):
        if takes != ANYTHING:
            yield f"complete -c headway -n '__headway_at {command.name} {place}' {_values(takes)}"
    for option in command.options:
        yield _option(f"__headway_at {command.name}", option)


def _option(condition: str, option: OptionWords) -> str:
    short = " ".join(f"-s {flag[1:]}" for flag in option.flags if not flag.startswith("--"))
    long = " ".join(f"-l {flag[2:]}" for flag in option.flags if flag.startswith("--"))
    names = " ".join(part for part in (short, long) if part)
    takes = "" if option.takes is None else f" -r {_values(option.takes)}"
    return f"complete -c headway -n {_quoted(condition)} {names}{takes} -d {_quoted(option.meaning)}"


def _keys(grammar: Grammar) -> Iterator[str]:
    """Each config key once, for the presets that have it."""
    presets: dict[str, list[str]] = {}
    for name, keys in grammar.keys.items():
        for key in keys:
            presets.setdefault(key, []).append(name)
    for key, names in presets.items():
        if "." in key:
            everywhere = len(names) == len(grammar.keys)
            condition = "__headway_at train" if everywhere else f"__headway_trains {' '.join(names)}"
            option = OptionWords(
                flags=(f"--{key}",), takes=grammar.values.get(key, ANYTHING), meaning=grammar.meanings[key]
            )
            yield _option(condition, option)


def _values(takes: str) -> str:
    """What is offered: words, and what kinds stand for."""
    words = [word for word in takes.split() if not word.startswith("@")]
    files = " -F" if FILES in takes.split() else ""
    dynamic = {RUNS: "(__headway_runs)", FOLDERS: "(__fish_complete_directories (commandline -ct))"}
    words += [text for kind, text in dynamic.items() if kind in takes.split()]
    return (f"-a {_quoted(' '.join(words))}" if words else "") + files


def _quoted(text: str) -> str:
    """A text as one word of fish."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
