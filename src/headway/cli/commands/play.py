"""`headway play`."""

from __future__ import annotations

import json
import math
from argparse import Namespace
from pathlib import Path

from rich.console import Console

from headway.cli import report as show
from headway.errors import ConfigError
from headway.plots.worlds import Frame, comparison_gif, comparison_strip
from headway.runs import Run, load
from headway.storage.commit import commit_file
from headway.tasks.decision_transformer.training import Asked
from headway.tasks.world_model.play import Played
from headway.tasks.world_model.render import dreamt_frames, real_frames

DRAWN = {".gif": comparison_gif, ".png": comparison_strip}


def run(arguments: Namespace) -> None:
    """The score in the real environment, with what it cost and what stands beside it."""
    suffix = None if arguments.render is None else Path(arguments.render).suffix.lower()
    if suffix is not None and suffix not in DRAWN:
        raise ConfigError(f"--render {arguments.render}, allowed: a name that ends in .gif or .png")
    found = load(arguments.run, device=arguments.device)
    done = found.play(episodes=arguments.episodes, seed=arguments.seed)
    if suffix is not None and isinstance(done, Asked):
        raise ConfigError(f"--render: {arguments.run} is a decision transformer, which imagines nothing to show")
    if suffix is not None and isinstance(done, Played):
        real, dream = _frames(found, done)
        commit_file(Path(arguments.render), DRAWN[suffix](real, dream))
    if arguments.json:
        values = done.to_json()
        print(json.dumps({key: None if _none(value) else value for key, value in values.items()}, allow_nan=False))
        return
    Console(highlight=False).print(show.facts(_asked(found, done) if isinstance(done, Asked) else _rows(found, done)))


def _none(value: object) -> bool:
    return isinstance(value, float) and not math.isfinite(value)


def _rows(found: Run, done: Played) -> dict[str, str]:
    cost = f"{done.taken:,} environment steps"
    rows = {
        "environment": found.config.data.spec,
        "score": f"{done.score}  mean return of {done.score.episodes:,} fresh episodes, learned with {cost}",
        "imagined": f"{done.imagined}  what the model says the same policy earns",
        "random": f"{done.chance}",
        "without the model": f"{done.without_model}  Q-learning on the same {cost}",
    }
    if done.optimum is not None:
        rows["optimum"] = f"{done.optimum:.3f}"
    if done.episodes.dropped:
        rows["dropped"] = f"{done.episodes.dropped:,} episodes that broke"
    return rows


def _asked(found: Run, done: Asked) -> dict[str, str]:
    rows = {
        "environment": found.config.data.spec,
        "what it is": "a decision transformer: it imitates logged episodes and is no world model",
        "log": f"{done.logged}  mean return of {done.logged.episodes:,} episodes, {done.taken:,} environment steps",
    }
    rows |= {f"asked for {target:g}": str(each) for target, each in zip(done.targets, done.found, strict=True)}
    return rows | {"rank correlation": f"{done.correlation:.3f}  {done.found[0].episodes:,} episodes each"}


def _frames(found: Run, done: Played) -> tuple[list[Frame], list[Frame]]:
    model, task = found.world()
    return real_frames(task, done.episodes), dreamt_frames(model, task, done.dreamt)
