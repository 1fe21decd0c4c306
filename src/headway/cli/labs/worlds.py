"""`headway lab worlds`: one world model with several seeds, and their scores as the field reports them."""

from __future__ import annotations

import json
from argparse import Namespace, _ActionsContainer
from pathlib import Path
from typing import TYPE_CHECKING

from headway.cli import options
from headway.errors import ConfigError

if TYPE_CHECKING:
    from headway.labs.worlds import WorldComparison

HELP = "a world model with several seeds: every score, interquartile mean, improvement over Q-learning"
OVERRIDES = True
VALUES = "worlds.json"


def add_arguments(parser: _ActionsContainer) -> None:
    """Which preset, how many runs, and how they are played."""
    parser.add_argument(
        "--preset", metavar="NAME", default="world-frozenlake", help="a world model (default: %(default)s)"
    )
    parser.add_argument(
        "--repeats", type=options.positive, default=10, metavar="N", help="seeds, from --seed on (default: %(default)s)"
    )
    parser.add_argument(
        "--beside", type=options.positive, default=2, metavar="N", help="runs at a time (default: %(default)s)"
    )
    parser.add_argument(
        "--played", type=options.positive, default=100, metavar="N", help="fresh episodes a run (default: %(default)s)"
    )
    parser.add_argument("--folder", metavar="DIR", help="of the runs (default: runs/PRESET-seeds)")


def execute(arguments: Namespace) -> None:
    """Train what is not trained yet, play, and compare."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    from headway.cli.console import SafeConsole
    from headway.cli.outputs import expect_folder
    from headway.labs import worlds

    folder = Path(arguments.folder or f"runs/{arguments.preset}-seeds")
    expect_folder(str(folder))
    changes = options.overrides_of(arguments.overrides)
    if "train.seed" in changes:
        raise ConfigError(f"--train.seed {changes['train.seed']}: use --seed for it in this lab")
    if arguments.steps is not None:
        changes["train.steps"] = arguments.steps
    seeds = range(arguments.seed, arguments.seed + arguments.repeats)
    configs = worlds.run_configs(arguments.preset, seeds, changes)
    console = SafeConsole(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed}/{task.total} steps"))
    with Progress(
        *columns, TimeRemainingColumn(), console=console, transient=True, disable=not console.is_interactive
    ) as bar:
        shown = bar.add_task(arguments.preset, total=sum(config.train.steps for config in configs.values()))
        found = worlds.train_and_play(
            configs,
            folder,
            beside=arguments.beside,
            episodes=arguments.played,
            told=lambda steps: bar.update(shown, completed=steps),
        )
    _report(found, arguments.preset, folder)


def _report(found: WorldComparison, name: str, folder: Path) -> None:
    from rich.markup import escape

    from headway.cli import render as show
    from headway.cli.console import SafeConsole
    from headway.storage.commit import commit_file

    console = SafeConsole()
    header = ["seed", "return", "imagined", "Q-learning", "environment steps"]
    rows = [
        [
            str(seed),
            f"{run['mean_return']:.3f} ± {run['return_error']:.3f}",
            f"{run['imagined_return']:.3f}",
            f"{run['model_free_return']:.3f}",
            f"{run['environment_steps']:,}",
        ]
        for seed, run in found.played.items()
    ]
    console.print(show.section(name, show.figures(header, rows)))
    facts = {
        "interquartile mean": f"{found.mean}  95 % interval, stratified bootstrap over seeds",
        "Q-learning": f"{found.without_model}  on the same environment steps",
        "improvement": f"{found.improvement}  probability that a run is better than one of Q-learning",
    }
    console.print(show.facts(facts))
    commit_file(folder / VALUES, json.dumps(found.to_json()) + "\n")
    console.print(f"\nEvery figure in {escape(str(folder / VALUES))}.")
