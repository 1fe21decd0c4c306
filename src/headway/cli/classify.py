"""`headway classify`."""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from pathlib import Path

from headway.errors import ConfigError
from headway.evaluation.image_plots import SHEET, plot_predictions
from headway.runs import load
from headway.storage import commit_file
from headway.tasks.classifying import Prediction


def run(arguments: Namespace) -> None:
    """A line for each image: its file, then its likeliest classes with their probabilities, tabs between."""
    if arguments.out is not None and Path(arguments.out).suffix.lower() != ".png":
        raise ConfigError(f"--out {arguments.out}, allowed: a name that ends in .png")
    found = load(arguments.run, device=arguments.device, precision=arguments.precision)
    made = found.classify(arguments.image, top=arguments.top)
    if arguments.json:
        rows = [
            {"image": each.image, "class": each.top[0][0], "probability": each.top[0][1], "top": dict(each.top)}
            for each in made
        ]
        print(json.dumps({"images": len(made), "predictions": rows}))
    else:
        for each in made:
            print("\t".join([each.image, *(f"{name} {share:.1%}" for name, share in each.top)]))
    if arguments.out is not None:
        _draw(made, Path(arguments.out))


def _draw(made: list[Prediction], path: Path) -> None:
    names = [Path(each.image).name for each in made]
    commit_file(path, plot_predictions([each.pixels for each in made], names, [each.top for each in made]))
    left = f"; the first {SHEET} of {len(made)} images" if len(made) > SHEET else ""
    print(f"headway: a picture in {path}{left}", file=sys.stderr)
