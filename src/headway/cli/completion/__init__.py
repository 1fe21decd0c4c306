"""Shell completion: the command line as data (`grammar`), and a script of it for each shell."""

from __future__ import annotations

from headway.cli.completion import bash, fish, zsh
from headway.cli.completion.grammar import read_grammar

WRITERS = {"bash": bash.script, "zsh": zsh.script, "fish": fish.script}


def script(shell: str) -> str:
    """The completion script of a shell."""
    return WRITERS[shell](read_grammar())
