"""`headway caption`."""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from pathlib import Path

from headway.errors import ConfigError
from headway.evaluation.image_plots import SHEET, plot_captions
from headway.runs import load
from headway.storage import commit_file
from headway.tasks.describing import Caption


def run(arguments: Namespace) -> None:
    """A line for each image: its file and its caption, a tab between."""
    if arguments.out is not None and Path(arguments.out).suffix.lower() != ".png":
        raise ConfigError(f"--out {arguments.out}, allowed: a name that ends in .png")
    found = load(arguments.run, device=arguments.device, precision=arguments.precision)
    made = found.caption(arguments.image, beam=arguments.beam)
    if arguments.json:
        rows = [{"image": each.image, "caption": each.text, "log_probability": each.log_probability} for each in made]
        print(json.dumps({"images": len(made), "captions": rows}))
    else:
        for each in made:
            print(f"{each.image}\t{each.text}")
    if arguments.out is not None:
        _draw(made, Path(arguments.out))


def _draw(made: list[Caption], path: Path) -> None:
    names = [Path(each.image).name for each in made]
    commit_file(path, plot_captions([each.pixels for each in made], names, [each.text for each in made]))
    left = f"; the first {SHEET} of {len(made)} images" if len(made) > SHEET else ""
    print(f"headway: a picture in {path}{left}", file=sys.stderr)
