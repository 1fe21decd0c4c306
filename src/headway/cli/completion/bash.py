"""The completion script of bash.

No word of it comes from the disk but through `[[ == ]]`, which expands nothing: a folder may have any name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from headway.cli.completion.grammar import ANYTHING, Grammar, OptionWords

SCRIPT = r"""# bash completion for headway, written by `headway completion bash`

_headway_add() {  # those of the given words that continue what is typed
  local word
  for word; do [[ $word == "$cur"* ]] && COMPREPLY+=("$word"); done
}

_headway_paths() {  # files or folders, by compgen's -f or -d
  local path
  compopt -o filenames 2> /dev/null
  while IFS= read -r path; do COMPREPLY+=("$path"); done < <(compgen "$1" -- "$cur")
}

_headway_runs() {
  local folder
  for folder in runs/*/; do
    [[ -e ${folder}config.yaml ]] && _headway_add "${folder%/}"
  done
  [[ ${#COMPREPLY[@]} -eq 0 || -n $cur ]] && _headway_paths -d
}

_headway_take() {  # what the given kinds and words stand for
  local kind
  for kind in $1; do
    case $kind in
      @runs) _headway_runs ;;
      @files) _headway_paths -f ;;
      @folders) _headway_paths -d ;;
      @anything) ;;
      *=) _headway_add "$kind"; compopt -o nospace 2> /dev/null ;;
      *) _headway_add "$kind" ;;
    esac
  done
}

_headway_options() {  # the options of a command, and those of them that take a value
  case $1 in
__OPTIONS__
    *) options='__TOP__' valued='' first='__COMMANDS__' rest=@anything ;;
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
}

_headway() {
  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]}
  local command='' preset='' options valued first rest takes keys='' word n place=0 skip=''
  COMPREPLY=()
  # `=` divides words: "--errors=str" is "--errors", "=", "str".
  if [[ $cur == = ]]; then cur=''; elif [[ $prev == = ]]; then prev=${COMP_WORDS[COMP_CWORD - 2]}; fi
  for ((n = 1; n < COMP_CWORD; n++)); do
    word=${COMP_WORDS[n]}
    if [[ $word == = ]]; then skip=1; continue; fi
    if [[ -n $skip ]]; then skip=''; continue; fi
    if [[ -z $command ]]; then
      if [[ $word != -* ]]; then command=$word; _headway_options "$command"; fi
    elif [[ $word == -* ]]; then
      if [[ " $valued " == *" $word "* || $word == --*.* ]]; then
        skip=1
        [[ ${COMP_WORDS[n + 1]} == = ]] && skip=''
      fi
    else
      [[ $place -eq 0 ]] && preset=$word
      place=$((place + 1))
    fi
  done
  if [[ -z $command ]]; then _headway_options ''; fi
  if [[ $command == train || $command == lab ]]; then _headway_keys "$preset"; fi
  if [[ $prev == -* && $cur != -* ]] && [[ " $valued " == *" $prev "* || " $keys " == *" ${prev#--} "* ]]; then
    _headway_value "$command" "$prev"
    _headway_take "$takes"
  elif [[ $cur == -* ]]; then
    _headway_add $options
    for word in $keys; do _headway_add "--$word"; done
  elif [[ $place -eq 0 ]]; then
    _headway_take "$first"
  else
    _headway_take "$rest"
  fi
}

complete -F _headway headway
"""


def script(grammar: Grammar) -> str:
    """The script."""
    return (
        SCRIPT.replace("__OPTIONS__", "\n".join(command_arms(grammar)))
        .replace("__TOP__", " ".join(flags_of(grammar.options)))
        .replace("__COMMANDS__", " ".join(command.name for command in grammar.commands))
        .replace("__VALUES__", "\n".join(value_arms(grammar)))
        .replace("__LIMITS__", limits(grammar))
        .replace("__KEYS__", "\n".join(key_arms(grammar)))
        .replace("__COMMON__", common_keys(grammar))
    )


# --- arms of a `case`, which zsh reads as well -----------------------------------------------------------------------


def command_arms(grammar: Grammar) -> Iterator[str]:
    """The options of each command, those that take a value, and what its arguments can be."""
    for command in grammar.commands:
        valued = flags_of(option for option in command.options if option.takes is not None)
        yield (
            f"    {command.name}) options='{' '.join(flags_of(command.options))}' valued='{' '.join(valued)}' "
            f"first='{command.first}' rest='{command.rest}' ;;"
        )


def value_arms(grammar: Grammar) -> Iterator[str]:
    """What each option and config key takes, where that is known."""
    for command in grammar.commands:
        for option in command.options:
            if option.takes not in (None, ANYTHING) and "--limit" not in option.flags:
                patterns = "|".join(f"'{command.name} {flag}'" for flag in option.flags)
                yield f"    {patterns}) takes='{option.takes}' ;;"
    for key, words in grammar.values.items():
        yield f"    *' --{key}') takes='{words}' ;;"


def key_arms(grammar: Grammar) -> Iterator[str]:
    """The config keys, once for all presets that have the same."""
    presets: dict[tuple[str, ...], list[str]] = {}
    for name, keys in grammar.keys.items():
        presets.setdefault(keys, []).append(name)
    for keys, names in presets.items():
        yield f"    {'|'.join(names)}) keys='{' '.join(key for key in keys if '.' in key)}' ;;"


def common_keys(grammar: Grammar) -> str:
    """The config keys that every preset has, for a preset that is not known."""
    of_all = [set(keys) for keys in grammar.keys.values()]
    first = next(iter(grammar.keys.values()), ())
    return " ".join(key for key in first if "." in key and all(key in keys for keys in of_all))


def flags_of(options: Iterable[OptionWords]) -> list[str]:
    """All spellings of some options."""
    return [flag for option in options for flag in option.flags]


def limits(grammar: Grammar) -> str:
    """What `--limit` takes, of every command."""
    every = (option for command in grammar.commands for option in command.options)
    return next(option.takes or "" for option in every if "--limit" in option.flags)
