"""The completion script of zsh."""

from __future__ import annotations

from headway.cli.completion.grammar import Grammar
from headway.cli.completion.shell_functions import shared_functions

SCRIPT = r"""#compdef headway
# zsh completion for headway, written by `headway completion zsh`

_headway_take() {  # what the given kinds and words stand for
  local kind
  local -a words_ folders
  for kind in ${=1}; do
    case $kind in
      @runs)
        folders=(runs/*/config.yaml(N:h))
        compadd -f -a folders
        _files -/
        ;;
      @files) _files ;;
      @folders) _files -/ ;;
      @anything) ;;
      *=) compadd -S '' -- $kind ;;
      *) words_+=($kind) ;;
    esac
  done
  compadd -a words_
}

__FUNCTIONS__

_headway() {
  local command='' preset='' options valued first rest takes keys='' word n place=0 skip=''
  local -a commands described
  for ((n = 2; n < CURRENT; n++)); do
    word=${words[n]}
    if [[ -n $skip ]]; then skip=''; continue; fi
    if [[ -z $command ]]; then
      if [[ $word != -* ]]; then command=$word; _headway_options "$command"; fi
    elif [[ $word == -* ]]; then
      if [[ $word != *=* && ( " $valued " == *" $word "* || $word == --*.* ) ]]; then skip=1; fi
    else
      (( place == 0 )) && preset=$word
      (( place++ ))
    fi
  done
  if [[ -z $command ]]; then _headway_options ''; fi
  if [[ $command == train || $command == lab ]]; then _headway_keys "$preset"; fi
  local cur=${words[CURRENT]} prev=${words[CURRENT - 1]}
  if [[ $cur == -*=* ]]; then  # --errors=str
    prev=${cur%%=*}
    compset -P '*='
    skip=1
  fi
  if [[ -n $skip ]]; then
    _headway_value "$command" "$prev"
    _headway_take "$takes"
  elif [[ $cur == -* ]]; then
    compadd -- ${=options} --${^${=keys}}
  elif [[ -z $command ]]; then
    commands=(__NAMES__)
    described=(
__COMMANDS__
    )
    compadd -l -d described -a commands
  elif (( place == 0 )); then
    _headway_take "$first"
  else
    _headway_take "$rest"
  fi
}

if [[ $funcstack[1] == _headway ]]; then  # found in $fpath
  _headway "$@"
else  # sourced
  compdef _headway headway
fi
"""


def script(grammar: Grammar) -> str:
    """The script."""
    width = max(len(each.name) for each in grammar.commands)
    described = (f"      {_quoted(f'{each.name:{width}}  {each.meaning}')}" for each in grammar.commands)
    return (
        SCRIPT.replace("__FUNCTIONS__", shared_functions(grammar, ""))
        .replace("__NAMES__", " ".join(each.name for each in grammar.commands))
        .replace("__COMMANDS__", "\n".join(described))
    )


def _quoted(text: str) -> str:
    """A text as one word of zsh."""
    return "'" + text.replace("'", "'\\''") + "'"
