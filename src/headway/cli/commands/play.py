"""`headway play`."""

from __future__ import annotations

import json
import math
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headway.cli import options
from headway.counts import counted
from headway.errors import ConfigError

if TYPE_CHECKING:
    from headway.tasks.capabilities import PictureKind, PlayResult

RENDERED = (".gif", ".png")
PLOTTED: dict[str, PictureKind] = {".png": "png", ".svg": "svg"}

HELP = "act in the real environment with a policy learned in a world model's imagination, or asked for returns"
EXAMPLES = (
    "headway play runs/world-cartpole --episodes 100",
    "headway play runs/world-cartpole --render both.gif    the real episode beside the imagined one",
    "headway play runs/asked/seed-* --plot asked.svg       several seeds: each, their mean and its interval",
    "headway play runs/lakes/seed-*    runs of several seeds: every score, and their interquartile mean",
)


def add_arguments(parser: ArgumentParser) -> None:
    """How many episodes, from which seed, and what to draw."""
    options.add_run(parser)
    parser.add_argument("more", metavar="RUN2", nargs="*", help="runs with other seeds, to be compared as one")
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
    parser.add_argument(
        "--plot", metavar="FILE.png", help="asked against achieved returns, as .png or .svg; - for stdout"
    )
    options.add_json(parser)


def execute(arguments: Namespace) -> None:
    """The score in the real environment, with the environment steps it cost and the baselines."""
    from headway.cli import render
    from headway.cli.outputs import expect_outputs, report_console, write_output

    expect_outputs(arguments, render=RENDERED, plot=tuple(PLOTTED))
    played = _played(arguments)
    if arguments.render is not None:
        write_output(arguments.render, played.render(Path(arguments.render).suffix.lower() or RENDERED[0]))
    if arguments.plot is not None:
        title = Path(arguments.run).name if not arguments.more else counted(1 + len(arguments.more), "run")
        picture = played.plot(PLOTTED.get(Path(arguments.plot).suffix.lower(), "png"), title)
        write_output(arguments.plot, picture, f"a picture in {arguments.plot}")
    if arguments.json:
        print(json.dumps(_strict(played.to_json()), allow_nan=False))
        return
    console = report_console(arguments.render, arguments.plot)
    console.print(render.facts(played.facts()), *render.rendered(played.tables()), sep="\n")


def _played(arguments: Namespace) -> PlayResult:
    """The result of the run, or of all runs as one. Raises ConfigError for runs that cannot be played together."""
    from headway.runs import load

    names = [arguments.run, *arguments.more]
    places = [Path(name).resolve() for name in names]
    twice = [name for n, name in enumerate(names) if places[n] in places[:n]]
    if twice:
        raise ConfigError(f"{twice[0]} is given twice, allowed: each run once")
    played = {}
    for name in names:
        played[name] = load(name, device=arguments.device, average=arguments.average).play(
            episodes=arguments.episodes, seed=arguments.seed
        )
    first, *others = played.values()
    if not others:
        return first
    if len({type(each) for each in played.values()}) > 1:
        raise ConfigError("runs of several tasks cannot be played together, allowed: runs of one task")
    return first.over_runs(played)


def _strict(values: dict[str, Any]) -> dict[str, Any]:
    """The same with null for what JSON has no number for, in each run too."""
    strict = {key: None if _non_finite(value) else value for key, value in values.items()}
    return {key: _strict(value) if isinstance(value, dict) else value for key, value in strict.items()}


def _non_finite(value: object) -> bool:
    return isinstance(value, float) and not math.isfinite(value)
