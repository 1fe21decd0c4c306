"""`headway play`."""

from __future__ import annotations

import json
import math
from argparse import ArgumentParser, Namespace
from pathlib import Path

from headway.cli import options

RENDERED = (".gif", ".png")

HELP = "act in the real environment with a policy learned in a world model's imagination"
EXAMPLES = (
    "headway play runs/world-cartpole --episodes 100",
    "headway play runs/world-cartpole --render both.gif    the real episode beside the imagined one",
)


def add_arguments(parser: ArgumentParser) -> None:
    """How many episodes, from which seed, and what to draw."""
    options.add_run(parser)
    parser.add_argument(
        "--episodes",
        type=options.positive,
        default=100,
        metavar="N",
        help="how many, with fresh seeds (default: %(default)s)",
    )
    parser.add_argument(
        "--seed", type=options.count, default=0, metavar="N", help="of those seeds (default: %(default)s)"
    )
    parser.add_argument(
        "--render",
        metavar="FILE.gif",
        help="the first real episode beside the imagined one, .gif or .png; - for stdout",
    )
    options.add_json(parser)


def execute(arguments: Namespace) -> None:
    """The score in the real environment, with the environment steps it cost and the baselines."""
    from headway.cli import render
    from headway.cli.outputs import expect_outputs, report_console, write_output
    from headway.runs import load

    expect_outputs(arguments, render=RENDERED)
    played = load(arguments.run, device=arguments.device).play(episodes=arguments.episodes, seed=arguments.seed)
    if arguments.render is not None:
        write_output(arguments.render, played.render(Path(arguments.render).suffix.lower() or RENDERED[0]))
    if arguments.json:
        values = {key: None if _non_finite(value) else value for key, value in played.to_json().items()}
        print(json.dumps(values, allow_nan=False))
        return
    report_console(arguments.render).print(render.facts(played.facts()))


def _non_finite(value: object) -> bool:
    return isinstance(value, float) and not math.isfinite(value)
