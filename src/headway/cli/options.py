"""Command-line options that several commands share, and the types of their values."""

from __future__ import annotations

import math
from argparse import SUPPRESS, ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Callable, Sequence

from headway.errors import ConfigError
from headway.limits import LIMITS, expect_within

LARGEST = 2**63 - 1  # what a tensor can hold
UNIT = 50_000  # lines of a job that a worker takes at once
LEASE = 600  # seconds
# Options that a limit of headway.limits bounds, whatever the command.
BOUNDED = {
    "beam": "beam",
    "n_best": "beam",
    "groups": "beam",
    "max_tokens": "output-tokens",
    "max_extra": "output-tokens",
    "episodes": "episodes",
    "seeds": "lab-runs",
}


def add_common(parser: ArgumentParser) -> None:
    """The options of every command."""
    group = parser.add_argument_group("options of every command")
    group.add_argument(
        "--limit",
        type=_limit,
        action="append",
        default=[],
        metavar="NAME=N",
        help="set a limit of headway, such as beam=2000 (repeatable)",
    )
    # Not to overwrite what `headway --debug COMMAND` has set.
    group.add_argument("--debug", action="store_true", default=SUPPRESS, help="show the traceback of an error")


def check_limits(arguments: Namespace) -> None:
    """Raise ConfigError for an option above its limit, before anything is loaded."""
    for name, bound in BOUNDED.items():
        value = getattr(arguments, name, None)
        if value is not None:
            expect_within(bound, value, f"--{name.replace('_', '-')}")


def add_run(parser: ArgumentParser, *, device: bool = True) -> None:
    """RUN and, for a command that computes with the run, `--device` and `--average`."""
    parser.add_argument("run", metavar="RUN", help="a run folder, as `headway train` writes it")
    if device:
        parser.add_argument(
            "--device", choices=("auto", "cpu", "cuda"), default="auto", help="where to compute (default: %(default)s)"
        )
        add_average(parser)


def add_precision(parser: ArgumentParser) -> None:
    """`--precision`, for commands that only use the weights."""
    parser.add_argument(
        "--precision",
        choices=("auto", "fp32", "bf16", "int8"),
        default="fp32",
        help="auto: bf16 on a GPU; on most CPUs int8, unless perplexity rises by over 1 %% (default: %(default)s)",
    )


def add_adapter(parser: ArgumentParser) -> None:
    """`--adapter`, for commands that use a run."""
    parser.add_argument(
        "--adapter",
        metavar="DIR",
        help="add the low-rank updates of an adapter folder, as `export --adapter` or PEFT has it",
    )


def add_sampling(parser: ArgumentParser) -> None:
    """How tokens are drawn, and how many: the options of `generate` and `chat`."""
    parser.add_argument("--max-tokens", type=positive, default=200, metavar="N", help="default: %(default)s")
    parser.add_argument(
        "--temperature",
        type=number(least=0),
        default=0.8,
        metavar="T",
        help="0 is greedy (default: %(default)s)",
    )
    parser.add_argument("--top-k", type=positive, metavar="K", help="sample from the K likeliest tokens")
    parser.add_argument(
        "--top-p",
        type=number(above=0, most=1),
        default=1.0,
        metavar="P",
        help="sample from the likeliest tokens that hold P of the probability (default: %(default)s)",
    )
    parser.add_argument(
        "--min-p",
        type=number(least=0, most=1),
        default=0.0,
        metavar="P",
        help="sample from tokens at least P times as likely as the likeliest (default: %(default)s)",
    )
    parser.add_argument(
        "--repetition-penalty",
        type=number(above=0),
        default=1.0,
        metavar="R",
        help="of tokens in the context; 1: no penalty (default: %(default)s)",
    )
    parser.add_argument("--seed", type=count, default=0, metavar="N", help="default: %(default)s")


def add_average(parser: ArgumentParser) -> None:
    """`--average`."""
    parser.add_argument(
        "--average",
        type=count,
        metavar="N",
        help="use the mean of the last N checkpoints; 1: the last one, 0: the best",
    )


def add_json(parser: ArgumentParser, what: str = "one flat object on stdout") -> None:
    """`--json`; `what` says what is printed."""
    parser.add_argument("--json", action="store_true", help=f"for machines: {what}")


def add_job(parser: ArgumentParser, *, out: bool = True) -> None:
    """`--input` and the options of a job over a large file; without `out`, the command declares `--out` itself."""
    group = parser.add_argument_group("a job over a large file (docs/jobs.md)")
    group.add_argument(
        "--input", dest="input_file", metavar="FILE", help="the lines of a file; start as many workers as you like"
    )
    if out:
        group.add_argument("--out", metavar="DIR", help="with --input: the folder that the workers of a job share")
    group.add_argument(
        "--unit",
        type=positive,
        default=UNIT,
        metavar="N",
        help="lines that a worker takes at once (default: %(default)s)",
    )
    group.add_argument("--shard", type=shard, metavar="K/N", help="only every Nth unit, from K on; K counts from 0")
    group.add_argument(
        "--lease",
        type=number(above=0),
        default=LEASE,
        metavar="S",
        help="seconds without a sign of life after which a unit goes to another worker (default: %(default)s)",
    )
    group.add_argument("--join", metavar="FILE", help="check that all units are there, and write them into one file")


def is_job(arguments: Namespace, *, never: Sequence[str] = (), only: Sequence[str] = ("out", "json")) -> bool:
    """Whether `--input` makes this command a worker of a job, or joins one.

    `never` are arguments of the command that a job cannot have, `only` those that nothing but a job has. Raises
    ConfigError for options that do not go together.
    """
    if arguments.input_file is None:
        for name in ("shard", "join", *only):
            if getattr(arguments, name):
                raise ConfigError(f"--{name} is an option of jobs: pass --input FILE and --out DIR with it")
        return False
    for name in never:
        if value := getattr(arguments, name):
            what = repr(value[0]) if isinstance(value, list) else f"--{name}"
            raise ConfigError(f"{what} and --input {arguments.input_file}: a job reads the lines of its file alone")
    if arguments.out is None:
        raise ConfigError("--input needs --out DIR, the folder that the workers of the job share")
    return True


def shard(text: str) -> tuple[int, int]:
    """The type of `--shard K/N`: one of N workers, counted from 0."""
    first, slash, every = text.partition("/")
    if not slash:
        raise ArgumentTypeError(f"{_short(text)}: expected K/N, such as 0/8 for the first of 8 workers")
    found = count(first), positive(every)
    if found[0] >= found[1]:
        raise ArgumentTypeError(f"{text}: K counts from 0, allowed: 0/{found[1]} to {found[1] - 1}/{found[1]}")
    return found


def positive(text: str) -> int:
    """The type of a count of at least 1: a whole number."""
    return _whole(text, 1)


def count(text: str) -> int:
    """The type of a count of at least 0, and of a seed: a whole number."""
    return _whole(text, 0)


def integer(text: str) -> int:
    """The type of a whole number of any sign."""
    return _whole(text, -LARGEST)


def finite(text: str) -> float:
    """The type of any other number: not NaN, not infinite."""
    try:
        number = float(text)
    except ValueError:
        raise ArgumentTypeError(f"{_short(text)}: not a number") from None
    if not math.isfinite(number):
        raise ArgumentTypeError(f"{text}: must be finite")
    return number


def number(
    *, least: float | None = None, most: float | None = None, above: float | None = None
) -> Callable[[str], float]:
    """The type of a number within bounds: at least one, at most one, above one."""

    def bounded(text: str) -> float:
        value = finite(text)
        if least is not None and value < least:
            raise ArgumentTypeError(f"{text}: must be at least {least:g}")
        if above is not None and value <= above:
            raise ArgumentTypeError(f"{text}: must be above {above:g}")
        if most is not None and value > most:
            raise ArgumentTypeError(f"{text}: must be at most {most:g}")
        return value

    return bounded


def _whole(text: str, least: int) -> int:
    try:
        number = int(text)
    except ValueError:  # no number, or one of more digits than Python reads
        raise ArgumentTypeError(f"{_short(text)}: not a whole number") from None
    if number < least:
        raise ArgumentTypeError(f"{text}: must be at least {least}")
    if number > LARGEST:
        raise ArgumentTypeError(f"{_short(text)}: must be at most {LARGEST:,}")
    return number


def _limit(text: str) -> tuple[str, int]:
    """NAME=N, a limit and its value."""
    name, equals, value = text.partition("=")
    if not equals or name not in LIMITS:
        raise ArgumentTypeError(f"{_short(text)}: expected NAME=N with one of the names {', '.join(LIMITS)}")
    return name, positive(value)


def _short(text: str) -> str:
    return repr(text if len(text) <= 40 else f"{text[:40]}…")


def overrides_of(words: Sequence[str]) -> dict[str, str]:
    """`--a.b VALUE` and `--a.b=VALUE` as {"a.b": "VALUE"}. Raises ConfigError for anything else."""
    overrides: dict[str, str] = {}
    rest = list(words)
    while rest:
        word = rest.pop(0)
        key, equals, value = word.removeprefix("--").partition("=")
        if not word.startswith("--"):
            raise ConfigError(f"unexpected argument {word!r}: settings are written --KEY.SUB VALUE")
        if not equals:
            if not rest or rest[0].startswith("--"):
                raise ConfigError(_without_value(key))
            value = rest.pop(0)
        overrides[key] = value
    return overrides


def _without_value(key: str) -> str:
    """The message for an option without a value: a config key lacks its value, any other word is not an option."""
    if "." in key:
        return f"--{key} needs a value"
    return f"no option --{key}: config keys are written --KEY.SUB VALUE, and `headway train PRESET --help` lists them"
