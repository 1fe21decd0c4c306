"""`headway generate`."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING

from headway.cli import options
from headway.cli.lines import stdin_lines
from headway.cli.terminal import is_terminal, tell
from headway.errors import ConfigError

if TYPE_CHECKING:
    from headway.cli.jobs import JobWork
    from headway.runs import Run

LINES_AT_ONCE = 16  # of a job

HELP = "continue each prompt"
EXAMPLES = (
    "headway generate runs/gpt-char 'ROMEO:' --seed 1",
    "headway generate runs/gpt-char --no-echo < prompts.txt    a prompt a line",
)
BETWEEN = "---"
NO_PROMPT = "\n"  # what is continued without a prompt at a terminal, where stdin is not read


def add_arguments(parser: ArgumentParser) -> None:
    """The prompt, how to sample, and when to stop."""
    options.add_run(parser)
    options.add_adapter(parser)
    parser.add_argument(
        "text", nargs="*", metavar="TEXT", help="prompts; without one, lines of stdin or, at a terminal, a line break"
    )
    parser.add_argument("--prompt", metavar="TEXT", help="one prompt, the same as TEXT")
    parser.add_argument("--no-echo", action="store_true", help="print the continuation without the prompt")
    options.add_sampling(parser)
    parser.add_argument("--stop", action="append", default=[], metavar="TEXT", help="end before TEXT (repeatable)")
    parser.add_argument(
        "--num",
        type=options.positive,
        default=1,
        metavar="N",
        help="how many texts of each prompt, with a line --- between any two (default: %(default)s)",
    )
    options.add_precision(parser)
    options.add_job(parser)
    options.add_json(parser, "with --input: one object about the job")


def execute(arguments: Namespace) -> None:
    """Continue each prompt, token by token as they come; several texts one after the other."""
    from headway.cli.loading import load_run
    from headway.tasks.capabilities import Generates

    if options.is_job(arguments, never=("text", "prompt")):
        from headway.cli.jobs import run_job
        from headway.runs.jobs import TextOutput

        run_job(arguments, TextOutput(), lambda: _job(arguments))
        return
    given = _prompts(arguments)
    found = load_run(arguments)
    found.require(Generates)  # before anything is read
    count = 0
    for prompt in given:
        for pieces in _continuations(found, prompt, arguments):
            sys.stdout.write(f"{BETWEEN}\n" if count else "")
            _print("" if arguments.no_echo else prompt, pieces)
            count += 1
    if not count:
        tell("note: no prompt: stdin has no lines, and no TEXT is given")


def _continuations(found: Run, prompt: str, arguments: Namespace) -> Iterator[Iterator[str]]:
    """The texts that continue a prompt, each in pieces as they are drawn."""
    for number in range(arguments.num):
        yield found.generate(
            prompt,
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


def _job(arguments: Namespace) -> JobWork:
    from headway.cli.jobs import JobWork
    from headway.cli.loading import load_run
    from headway.decoding.non_finite import numbered
    from headway.tasks.capabilities import Generates

    run = load_run(arguments)
    run.require(Generates)

    def answer(block: Sequence[str], before: int) -> list[str]:
        found = []
        for number, prompt in enumerate(block, before):
            with numbered([number], "line"):
                texts = ["".join(pieces) for pieces in _continuations(run, prompt, arguments)]
            begun = "" if arguments.no_echo else prompt
            found.append(f"\n{BETWEEN}\n".join(f"{begun}{text}" for text in texts))
        first = f"{BETWEEN}\n" if before else ""
        return [f"{first}{found[0]}", *(f"{BETWEEN}\n{text}" for text in found[1:])]

    return JobWork(runs=[run], answer=answer, lines_at_once=LINES_AT_ONCE)


def _prompts(arguments: Namespace) -> Iterable[str]:
    """The prompts: those given, else the lines of stdin, else at a terminal a line break. Raises ConfigError."""
    if arguments.prompt is not None and arguments.text:
        raise ConfigError(f"--prompt and TEXT {arguments.text[0]!r} are the same thing: give one of them")
    given = arguments.text if arguments.prompt is None else [arguments.prompt]
    return given or ([NO_PROMPT] if is_terminal(sys.stdin) else stdin_lines())


def _print(prompt: str, pieces: Iterator[str]) -> None:
    """A prompt at once, then its continuation as it comes."""
    try:
        for text in chain([prompt], pieces):
            sys.stdout.write(text)
            sys.stdout.flush()
    finally:  # also when interrupted: what was written stays, and ends its line
        sys.stdout.write("\n")
