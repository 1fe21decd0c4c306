"""`headway lab positions`: trains a model a kind, compares their loss by length, draws one figure."""

from __future__ import annotations

import json
from argparse import Namespace
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from headway.cli import overrides_of
from headway.cli import report as show
from headway.cli.commands.train import train_and_draw
from headway.errors import ConfigError
from headway.labs import positions
from headway.labs.positions import PositionComparison
from headway.runs import CONFIG
from headway.storage.commit import commit_file

STEPS = 2000
OWN = {"data.spec": "data", "train.steps": "steps", "train.seed": "seed", "model.position": "kinds"}
FIGURE, VALUES = "positions.png", "positions.json"


def run(arguments: Namespace) -> None:
    """Train what is not trained yet, then compare."""
    kinds = tuple(dict.fromkeys(part.strip() for part in arguments.kinds.split(",")))
    seeds = range(arguments.seed, arguments.seed + arguments.seeds)
    folder, steps = Path(arguments.out or "runs/positions"), arguments.steps or STEPS
    changes = overrides_of(arguments.overrides)
    for own, flag in OWN.items():
        if own in changes:
            raise ConfigError(f"--{own} {changes[own]}: here --{flag} says it")
    data = arguments.data or "pydocs"
    recipes = {  # all of them first: a kind that does not exist is told before an hour of training
        (kind, seed): positions.run_config(kind, data=data, steps=steps, seed=seed, changes=changes)
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
    _tell(PositionComparison(measured), folder, seeds=len(seeds))


def _place(folder: Path, kind: str, seed: int) -> Path:
    return folder / f"{kind}-{seed}"


def _tell(found: PositionComparison, folder: Path, *, seeds: int) -> None:
    console = Console(highlight=False)
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
