"""The completion script of bash.

No word of it comes from the disk but through `[[ == ]]`, which expands nothing: a folder may have any name.
"""

from __future__ import annotations

from headway.cli.completion.grammar import Grammar
from headway.cli.completion.shell_functions import shared_functions

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

__FUNCTIONS__

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
    commands = " ".join(command.name for command in grammar.commands)
    return SCRIPT.replace("__FUNCTIONS__", shared_functions(grammar, commands))
