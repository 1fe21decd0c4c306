"""`headway generate`."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace

from headway.cli import options

HELP = "continue a prompt"
EXAMPLES = ("headway generate runs/gpt-char --prompt 'ROMEO:' --seed 1",)
BETWEEN = "---"


def add_arguments(parser: ArgumentParser) -> None:
    """The prompt, how to sample, and when to stop."""
    options.add_run(parser)
    parser.add_argument("--prompt", default="\n", metavar="TEXT", help="default: a line break")
    parser.add_argument("--max-tokens", type=options.positive, default=200, metavar="N", help="default: %(default)s")
    parser.add_argument(
        "--temperature", type=float, default=0.8, metavar="T", help="0 is greedy (default: %(default)s)"
    )
    parser.add_argument("--top-k", type=options.positive, metavar="K", help="sample from the K likeliest tokens")
    parser.add_argument(
        "--top-p",
        type=float,
        default=1.0,
        metavar="P",
        help="sample from the likeliest tokens that hold P of the probability (default: %(default)s)",
    )
    parser.add_argument(
        "--min-p",
        type=float,
        default=0.0,
        metavar="P",
        help="sample from tokens at least P times as likely as the likeliest (default: %(default)s)",
    )
    parser.add_argument(
        "--repetition-penalty",
        type=float,
        default=1.0,
        metavar="R",
        help="of tokens in the context; 1: no penalty (default: %(default)s)",
    )
    parser.add_argument("--stop", action="append", default=[], metavar="TEXT", help="end before TEXT (repeatable)")
    parser.add_argument(
        "--num",
        type=options.positive,
        default=1,
        metavar="N",
        help="how many texts, with a line --- between them (default: %(default)s)",
    )
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="default: %(default)s")
    options.add_precision(parser)


def execute(arguments: Namespace) -> None:
    """Continue a prompt, token by token as they come; several texts one after the other."""
    from headway.runs import load

    found = load(arguments.run, device=arguments.device, precision=arguments.precision)
    for number in range(arguments.num):
        pieces = found.generate(
            arguments.prompt,
            max_tokens=arguments.max_tokens,
            temperature=arguments.temperature,
            top_k=arguments.top_k,
            top_p=arguments.top_p,
            min_p=arguments.min_p,
            repetition_penalty=arguments.repetition_penalty,
            stop=arguments.stop,
            seed=arguments.seed,
            number=number,
        )
        sys.stdout.write(f"{BETWEEN}\n{arguments.prompt}" if number else arguments.prompt)
        sys.stdout.flush()
        try:
            for text in pieces:
                sys.stdout.write(text)
                sys.stdout.flush()
        finally:  # also when interrupted: what was written stays, and ends its line
            sys.stdout.write("\n")
