"""`headway lab`: small experiments."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from headway.cli import options
from headway.cli.labs import LABS, lab
from headway.errors import ConfigError

HELP = "small experiments"
EXAMPLES = (
    "headway lab sentences",
    "headway lab positions --data book.txt --seeds 3    takes --KEY.SUB VALUE, as `headway train` does",
)


def add_arguments(parser: ArgumentParser) -> None:
    """Which lab, the options of all labs and, in a group each, those of one."""
    parser.add_argument("name", nargs="?", metavar="NAME", help="without it, the list of labs")
    parser.add_argument(
        "--seed", type=options.count, default=0, help="of the weights and the samples (default: %(default)s)"
    )
    parser.add_argument("--steps", type=options.positive, help="of training (default: the lab's)")
    for name in LABS:
        lab(name).add_arguments(parser.add_argument_group(f"lab {name}", lab(name).HELP))


def execute(arguments: Namespace) -> None:
    """Run a lab, or list them."""
    name = arguments.name
    if name is None:
        print("\n".join(f"{each}: {lab(each).HELP}" for each in LABS))
        return
    if name not in LABS:
        raise ConfigError(f"no lab {name!r}, there are: {', '.join(LABS)}")
    for other in LABS:
        for option in _given(other, arguments) if other != name else ():
            raise ConfigError(f"--{option} is an option of lab {other}, not of lab {name}; {_allowed(name)}")
    if arguments.overrides and not lab(name).OVERRIDES:
        raise ConfigError(f"{arguments.overrides[0]}: lab {name} has no settings; {_allowed(name)}")
    lab(name).execute(arguments)


def _own(name: str) -> dict[str, object]:
    """The options of one lab alone, with their defaults."""
    parser = ArgumentParser(add_help=False)
    lab(name).add_arguments(parser)
    return vars(parser.parse_args([]))


def _given(name: str, arguments: Namespace) -> list[str]:
    """The options of a lab that are set to something else than their defaults."""
    return [option for option, default in _own(name).items() if getattr(arguments, option) != default]


def _allowed(name: str) -> str:
    return "allowed: " + ", ".join(f"--{option}" for option in ("seed", "steps", *_own(name)))
