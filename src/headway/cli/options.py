"""Command-line options that several commands share, and the types of their values."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Sequence

from headway.errors import ConfigError


def add_run(parser: ArgumentParser, *, device: bool = True) -> None:
    """RUN and, unless the command is for the CPU only, `--device`."""
    parser.add_argument("run", metavar="RUN", help="a run folder, as `headway train` writes it")
    if device:
        parser.add_argument(
            "--device", choices=("auto", "cpu", "cuda"), default="auto", help="where to compute (default: %(default)s)"
        )


def add_precision(parser: ArgumentParser) -> None:
    """`--precision`, for commands that only use the weights."""
    parser.add_argument(
        "--precision",
        choices=("auto", "fp32", "bf16", "int8"),
        default="fp32",
        help="auto: the fastest here, int8 on most CPUs, bf16 on a GPU (default: %(default)s)",
    )


def add_average(parser: ArgumentParser) -> None:
    """`--average`."""
    parser.add_argument("--average", type=int, metavar="N", help="use the mean of the last N checkpoints")


def add_json(parser: ArgumentParser, what: str = "one flat object on stdout") -> None:
    """`--json`; `what` says what is printed."""
    parser.add_argument("--json", action="store_true", help=f"for machines: {what}")


def positive(text: str) -> int:
    """The type of a count: a whole number from 1."""
    number = int(text)
    if number < 1:
        raise ArgumentTypeError(f"{text}: must be at least 1")
    return number


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
                raise ConfigError(f"--{key} needs a value")
            value = rest.pop(0)
        overrides[key] = value
    return overrides
