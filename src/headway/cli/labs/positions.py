"""`headway lab positions`: trains a model of each kind of position and compares their loss by length."""

from __future__ import annotations

import json
from argparse import Namespace, _ActionsContainer
from pathlib import Path
from typing import TYPE_CHECKING

from headway.cli import options
from headway.errors import ConfigError

if TYPE_CHECKING:
    from headway.labs.positions import PositionComparison

HELP = "learned, sinusoidal, rotary, ALiBi and no positions: loss by length, beyond that of training"
OVERRIDES = True
STEPS = 2000
OWN = {"data.spec": "data", "train.steps": "steps", "train.seed": "seed", "model.position": "kinds"}
FIGURE, VALUES = "positions.png", "positions.json"


def add_arguments(parser: _ActionsContainer) -> None:
    """What to train, on what, and where the runs go."""
    parser.add_argument("--data", metavar="SPEC", default="pydocs", help="a text (default: %(default)s)")
    parser.add_argument(
        "--out", metavar="DIR", default="runs/positions", help="the folder of its runs (default: %(default)s)"
    )
    parser.add_argument(
        "--kinds",
        metavar="A,B,…",
        default="learned,sinusoidal,rotary,alibi,none",
        help="which to compare (default: %(default)s)",
    )
    parser.add_argument(
        "--seeds", type=options.positive, default=1, metavar="N", help="models of each kind (default: %(default)s)"
    )


def execute(arguments: Namespace) -> None:
    """Train what is not trained yet, then compare."""
    from headway.cli.outputs import expect_folder
    from headway.cli.training import train_and_draw
    from headway.labs import positions
    from headway.runs.folder import CONFIG

    expect_folder(arguments.out)
    kinds = tuple(dict.fromkeys(part.strip() for part in arguments.kinds.split(",")))
    seeds = range(arguments.seed, arguments.seed + arguments.seeds)
    folder, steps = Path(arguments.out), arguments.steps or STEPS
    changes = options.overrides_of(arguments.overrides)
    for own, flag in OWN.items():
        if own in changes:
            raise ConfigError(f"--{own} {changes[own]}: use --{flag} for it in this lab")
    recipes = {  # all of them first: an unknown kind is reported before an hour of training
        (kind, seed): positions.run_config(kind, data=arguments.data, steps=steps, seed=seed, changes=changes)
        for kind in kinds
        for seed in seeds
    }
    for (kind, seed), config in recipes.items():
        place = _place(folder, kind, seed)
        train_and_draw(config, place, resume=(place / CONFIG).exists())
    measured = {
        kind: [positions.measure(_place(folder, kind, seed), device=recipes[kind, seed].train.device) for seed in seeds]
        for kind in kinds
    }
    _report(positions.PositionComparison(measured), folder, seeds=len(seeds))


def _place(folder: Path, kind: str, seed: int) -> Path:
    return folder / f"{kind}-{seed}"


def _report(found: PositionComparison, folder: Path, *, seeds: int) -> None:
    from rich.markup import escape

    from headway.cli import render as show
    from headway.cli.console import SafeConsole
    from headway.storage.commit import commit_file

    console = SafeConsole()
    many = f"mean ± standard deviation of {seeds} seeds" if seeds > 1 else "one seed"
    header = ["positions", *(f"{length:,}" for length in found.lengths)]
    for what, sliding in (("blocks that do not overlap", False), ("windows sliding by half", True)):
        rows = [
            [kind, *(str(found.loss(kind, n, sliding=sliding) or "refused") for n in found.lengths)]
            for kind in found.runs
        ]
        title = f"loss by length, trained at {found.trained}: {what} ({many})"
        console.print(show.section(title, show.figures(header, rows)))
    if steps := found.steps():
        rows = [[kind, *(str(found.validation(kind, step)) for step in steps)] for kind in found.runs]
        table = show.figures(["positions", *(f"{step:,}" for step in steps)], rows)
        console.print(show.section("validation loss by step", table))
    title = f"positions, trained at {found.trained} characters"
    commit_file(folder / FIGURE, found.picture(title))
    commit_file(folder / VALUES, json.dumps(found.to_json()) + "\n")
    console.print(f"\nA picture in {escape(str(folder / FIGURE))}, every figure in {escape(str(folder / VALUES))}.")
