"""Asking before something is removed."""

from __future__ import annotations

import sys

from headway.cli.terminal import ask_for, is_terminal, tell


def confirmed(what: str, *, yes: bool, ask: bool = True) -> bool:
    """Whether to free `what` ("38.2 MB"): `--yes` was given, or the user at the terminal agrees.

    Without a terminal, or where there is to be no question, the answer is no, and a line says how to mean yes.
    """
    if yes:
        return True
    if ask and is_terminal(sys.stdin) and is_terminal(sys.stderr):
        ask_for(f"free {what}? [y/N] ")
        if sys.stdin.readline().strip().lower() in ("y", "yes"):
            return True
        tell("nothing was removed")
    else:
        tell(f"nothing was removed; --yes frees {what}")
    return False
