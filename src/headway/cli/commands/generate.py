"""`headway generate`."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from headway.cli import options

if TYPE_CHECKING:
    from headway.data.tokenizers import Tokenizer

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
        help="of tokens in the context; 1 is none (default: %(default)s)",
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
    """Go on from a prompt, token by token as they come; several texts one after the other."""
    from headway.decoding.sampling import Sampling, stream
    from headway.runs import load

    found = load(arguments.run, device=arguments.device, precision=arguments.precision)
    prompt = found.prompt(arguments.prompt)
    sampling = Sampling(
        temperature=arguments.temperature,
        top_k=arguments.top_k,
        top_p=arguments.top_p,
        min_p=arguments.min_p,
        repetition_penalty=arguments.repetition_penalty,
    )
    for number in range(arguments.num):
        sys.stdout.write(f"{BETWEEN}\n{arguments.prompt}" if number else arguments.prompt)
        sys.stdout.flush()
        tokens = stream(
            found.model,  # type: ignore[arg-type]
            prompt,
            max_tokens=arguments.max_tokens,
            sampling=sampling,
            seed=arguments.seed,
            number=number,
            stops=found.tokenizer.marks.stops if found.tokenizer.marks else (),
            context=getattr(found.config.model, "context", None),
        )
        try:
            for text in before_stop(decoded(found.tokenizer, prompt[0].tolist(), tokens), arguments.stop):
                sys.stdout.write(text)
                sys.stdout.flush()
        finally:  # also when interrupted: what was written stays, and ends its line
            sys.stdout.write("\n")


def decoded(tokenizer: Tokenizer, prompt: Sequence[int], tokens: Iterable[int]) -> Iterator[str]:
    """The text of tokens as they come, after a prompt; half a character waits for its other half.

    Only the tokens since the last whole piece of text are decoded again, and the piece before them, which tells whether
    a space stands between.
    """
    known, fresh = list(prompt), []
    shown = tokenizer.decode(known)
    for token in tokens:
        fresh.append(token)
        text = tokenizer.decode([*known, *fresh])
        if text.endswith("\ufffd") or len(text) <= len(shown):
            continue
        yield text[len(shown) :]
        known, fresh = fresh, []
        shown = tokenizer.decode(known)


def before_stop(pieces: Iterable[str], stops: Sequence[str]) -> Iterator[str]:
    """The text up to the first of the stop strings; what may be the beginning of one waits until it is known."""
    held = ""
    for piece in pieces:
        held += piece
        found = [held.index(stop) for stop in stops if stop in held]
        if found:
            yield held[: min(found)]
            return
        keep = max((n for stop in stops for n in range(1, len(stop)) if held.endswith(stop[:n])), default=0)
        if len(held) > keep:
            yield held[: len(held) - keep]
            held = held[len(held) - keep :]
    if held:
        yield held
