"""`headway play`."""

from __future__ import annotations

import json
import math
from argparse import Namespace
from pathlib import Path

from rich.console import Console

from headway.cli import render
from headway.errors import ConfigError
from headway.runs import load
from headway.storage.commit import commit_file

RENDERED = (".gif", ".png")


def run(arguments: Namespace) -> None:
    """The score in the real environment, with what it cost and what stands beside it."""
    suffix = None if arguments.render is None else Path(arguments.render).suffix.lower()
    if suffix is not None and suffix not in RENDERED:
        raise ConfigError(f"--render {arguments.render}, allowed: a name that ends in .gif or .png")
    played = load(arguments.run, device=arguments.device).play(episodes=arguments.episodes, seed=arguments.seed)
    if suffix is not None:
        commit_file(Path(arguments.render), played.render(suffix))
    if arguments.json:
        values = {key: None if _non_finite(value) else value for key, value in played.to_json().items()}
        print(json.dumps(values, allow_nan=False))
        return
    Console(highlight=False).print(render.facts(played.facts()))


def _non_finite(value: object) -> bool:
    return isinstance(value, float) and not math.isfinite(value)
