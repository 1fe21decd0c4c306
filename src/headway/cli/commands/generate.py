"""`headway generate`."""

from __future__ import annotations

import sys
from argparse import Namespace

from headway.runs import load

BETWEEN = "---"


def run(arguments: Namespace) -> None:
    """Continue a prompt, token by token as they come; several texts one after the other."""
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
