"""The command line. Nothing here imports torch before a command needs it."""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Sequence
from typing import TextIO

from headway import __version__
from headway.errors import AdviceWarning, HeadwayError

EPILOG = """examples:
  headway demo                   train the decks' three-sentence language model and sample from it
  headway presets                the models there are
  headway presets gpt2           one of them: source, size, departures from the paper
  headway bench attend           the attention kernels side by side
"""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="headway",
        description="The transformer family as one working system.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"headway {__version__}")
    parser.add_argument("--debug", action="store_true", help="show the traceback of an error")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")

    demo = commands.add_parser("demo", help="train a small model on built-in data and use it")
    demo.add_argument("--seed", type=int, default=0, help="of the weights and the samples (default: 0)")
    demo.add_argument("--steps", type=_positive, default=400, help="of training (default: 400)")

    presets = commands.add_parser("presets", help="the models there are, their size, source and departures")
    presets.add_argument("name", nargs="?", metavar="NAME", help="show this one in full")
    presets.add_argument("--json", action="store_true", help="for machines")

    bench = commands.add_parser("bench", help="headway beside its peers, in one run")
    bench.add_argument("name", nargs="?", metavar="NAME", help="which comparison; without it, what there is")
    bench.add_argument("--json", action="store_true", help="for machines")
    return parser


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text}: must be at least 1")
    return number


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the exit code is documented in docs/commands.md."""
    parser = _parser()
    arguments = parser.parse_args(argv)
    if arguments.command is None:
        parser.print_help()
        return 0
    warnings.showwarning = _one_line
    try:
        _run(arguments)
    except HeadwayError as error:
        if arguments.debug:
            raise
        print(f"headway: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("headway: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # `headway presets | head`
        sys.stderr.close()
        return 0
    return 0


def _run(arguments: argparse.Namespace) -> None:
    if arguments.command == "demo":
        from headway.cli import demo

        demo.run(seed=arguments.seed, steps=arguments.steps)
    elif arguments.command == "presets":
        from headway.cli import presets

        presets.run(arguments.name, as_json=arguments.json)
    elif arguments.command == "bench":
        from headway.cli import bench

        bench.run(arguments.name, as_json=arguments.json)


def _one_line(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    name = "note" if issubclass(category, AdviceWarning) else category.__name__
    print(f"headway: {name}: {message}", file=sys.stderr)
