"""The argument parser, built from the command modules."""

from __future__ import annotations

from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Iterable, Sequence

from headway import __version__
from headway.cli.commands import COMMANDS, command

EPILOG = """examples:
  headway demo                                        an English-French transformer on built-in data, in minutes
  headway train gpt-char --data book.txt              a character model of your own text, into runs/gpt-char
  headway train transformer-tiny --data corpus --source en --target de --out runs/en-de
  headway info runs/en-de                             what a run is, how good, and what it can do
  headway evaluate runs/en-de --split test            BLEU with its signature, chrF, intervals
  echo "a cute puppy" | headway translate runs/en-de
  headway translate runs/en-de "a cute puppy" --trace beam.jsonl
  headway trace beam.jsonl                            which hypotheses the beam kept and pruned, and why
  headway generate runs/gpt-char --prompt "ROMEO:"
  headway lab sentences                               a language model of three sentences
  headway presets gpt2                                source, size, departures from the paper
"""


def named_commands(argv: Sequence[str]) -> Iterable[str]:
    """The commands a parser of these words needs: the one that is called, or all of them."""
    word = next((word for word in argv if not word.startswith("-")), None)  # no option before it takes a value
    return (word,) if word in COMMANDS else COMMANDS


def build_parser(names: Iterable[str] = COMMANDS) -> ArgumentParser:
    """A parser that knows these commands; only their modules are imported."""
    parser = ArgumentParser(
        prog="headway",
        description="Train, use and inspect transformers.",
        epilog=EPILOG,
        formatter_class=RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"headway {__version__}")
    parser.add_argument("--debug", action="store_true", help="show the traceback of an error")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    for name in names:
        module = command(name)
        title = "examples" if len(module.EXAMPLES) > 1 else "example"
        module.add_arguments(
            commands.add_parser(
                name,
                help=module.HELP,
                description=module.HELP,
                epilog="\n  ".join([f"{title}:", *module.EXAMPLES]) if module.EXAMPLES else None,
                formatter_class=RawDescriptionHelpFormatter,
                add_help=not getattr(module, "OWN_HELP", False),
            )
        )
    return parser
