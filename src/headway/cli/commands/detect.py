"""`headway detect`."""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from headway.cli import options
from headway.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headway.tasks.detection.pipeline import DetectedObjects

HELP = "the objects in each image: their classes and boxes"
EXAMPLES = (
    "headway detect runs/detr-shapes scene.png --out drawn    drawn/scene.png has the boxes",
    "headway detect runs/detr-shapes scene.png photo.png --threshold 0.8 --out found.json",
)
JSON = ".json"


def add_arguments(parser: ArgumentParser) -> None:
    """Which images, how sure, and what to write."""
    options.add_run(parser)
    parser.add_argument("image", nargs="+", metavar="IMAGE", help="files that Pillow reads: PNG, JPEG, WebP, …")
    options.add_precision(parser)
    parser.add_argument(
        "--threshold",
        type=options.number(least=0, most=1),
        default=0.5,
        metavar="P",
        help="objects with a lower score are left out (default: %(default)s)",
    )
    parser.add_argument(
        "--out",
        metavar="DIR|FILE.json",
        help="a new folder with the images, their boxes drawn on them, or a file with what --json prints",
    )
    options.add_json(parser, "one object on stdout")


def execute(arguments: Namespace) -> None:
    """A line for each image: its file, then each object's class, score, x, y, width and height, tabs between."""
    from headway.cli.loading import load_run
    from headway.cli.outputs import write_output
    from headway.tasks.capabilities import Detects
    from headway.tasks.detection.pipeline import described

    _expect_out(arguments)
    found = load_run(arguments).require(Detects)
    detected = found.detect(arguments.image, threshold=arguments.threshold)
    values = json.dumps({"images": len(detected), "detections": [each.to_json() for each in detected]})
    if arguments.json:
        print(values)
    else:
        for each in detected:
            objects = zip(each.classes, each.scores, each.boxes, strict=True)
            print("\t".join([each.image, *(described(*thing) for thing in objects)]))
    if arguments.out is not None and _is_json(arguments.out):
        write_output(arguments.out, f"{values}\n", f"the objects in {arguments.out}")
    elif arguments.out is not None:
        _draw(arguments.out, detected)


def _is_json(target: str) -> bool:
    return Path(target).suffix.lower() == JSON


def _expect_out(arguments: Namespace) -> None:
    """Raise ConfigError or StorageError for an --out that cannot be written."""
    from headway.cli.outputs import expect_outputs
    from headway.storage.commit import expect_new

    if arguments.out is None:
        return
    if _is_json(arguments.out) or arguments.out == "-":
        expect_outputs(arguments, out=(JSON,), stdout_has="the objects")
        return
    if Path(arguments.out).suffix:
        raise ConfigError(f"--out {arguments.out}, allowed: a folder, or a name that ends in {JSON}")
    expect_new(Path(arguments.out))


def _draw(target: str, detected: Sequence[DetectedObjects]) -> None:
    """A folder with each image, its boxes drawn on it, under its own name."""
    from headway.cli.terminal import tell
    from headway.counts import counted
    from headway.data.boxes import read_pixels
    from headway.plots.detections import plot_objects
    from headway.storage.commit import commit_file, commit_run

    pictures: dict[str, bytes] = {}
    for each in detected:
        name, stem = f"{Path(each.image).stem}.png", Path(each.image).stem
        number = 2
        while name in pictures:  # two files of one name in two folders
            name, number = f"{stem}-{number}.png", number + 1
        pixels = read_pixels(Path(each.image))
        pictures[name] = plot_objects(pixels, Path(each.image).name, each.classes, each.scores, each.boxes)
    with commit_run(Path(target)) as draft:
        for name, picture in pictures.items():
            commit_file(draft / name, picture)
    tell(f"{counted(len(pictures), 'picture')} in {target}")
