"""`headway completion`: a script that completes words on the command line of a shell."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

HELP = "a script for bash, zsh or fish that completes commands, options, presets, runs and config keys"
EXAMPLES = ("headway completion bash > headway-completion.bash    then `source` it; docs/commands.md has all three",)
SHELLS = ("bash", "zsh", "fish")


def add_arguments(parser: ArgumentParser) -> None:
    """Which shell."""
    parser.add_argument("shell", choices=SHELLS, metavar="SHELL", help="bash, zsh or fish")


def execute(arguments: Namespace) -> None:
    """Print the script. It has all names in it: completing starts no Python."""
    from headway.cli.completion import script

    print(script(arguments.shell), end="")
