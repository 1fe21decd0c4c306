"""`headway transcribe`."""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace

from headway.cli import options

HELP = "what is said in each sound"
EXAMPLES = (
    "headway transcribe runs/speech-ctc digits.wav",
    "headway transcribe runs/speech-ctc digits.wav --beam 8 --json",
)


def add_arguments(parser: ArgumentParser) -> None:
    """Which sounds, and how to search."""
    options.add_run(parser)
    parser.add_argument("sound", nargs="+", metavar="FILE.wav", help="WAV files; channels are averaged, rates adapted")
    parser.add_argument(
        "--beam", type=options.positive, metavar="N", help="beam size, 1 is greedy (default: the recipe's)"
    )
    options.add_precision(parser)
    options.add_json(parser, "one object on stdout")


def execute(arguments: Namespace) -> None:
    """A line for each sound: its file and its text, a tab between."""
    from headway.cli.loading import load_run

    found = load_run(arguments)
    transcripts = found.transcribe(arguments.sound, beam=arguments.beam)
    if arguments.json:
        rows = [each.to_json() for each in transcripts]
        print(json.dumps({"sounds": len(transcripts), "transcripts": rows}))
        return
    for each in transcripts:
        print(f"{each.sound}\t{each.text}")
