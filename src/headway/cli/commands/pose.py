"""`headway pose`."""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace
from pathlib import Path

from headway.cli import options

HELP = "the keypoints of the person in each image"
EXAMPLES = ("headway pose runs/pose figure.png --out skeleton.png",)


def add_arguments(parser: ArgumentParser) -> None:
    """Which images, and what to draw."""
    options.add_run(parser)
    parser.add_argument("image", nargs="+", metavar="IMAGE", help="files that Pillow reads: PNG, JPEG, WebP, …")
    options.add_precision(parser)
    parser.add_argument("--out", metavar="FILE.png", help="the images with their skeletons drawn on them")
    options.add_json(parser, "one object on stdout")


def execute(arguments: Namespace) -> None:
    """A line for each image: its file, then each keypoint's name and place in pixels, tabs between."""
    from headway.cli.pictures import expect_png, write_picture
    from headway.data.synthetic.stick_figures import KEYPOINTS
    from headway.plots.images import SHEET
    from headway.plots.poses import plot_poses
    from headway.runs import load

    expect_png("out", arguments.out)
    found = load(arguments.run, device=arguments.device, precision=arguments.precision)
    made = found.pose(arguments.image)
    names = KEYPOINTS if len(made[0].keypoints) == len(KEYPOINTS) else tuple(map(str, range(len(made[0].keypoints))))
    if arguments.json:
        rows = [
            {"image": each.image, "size": each.pixels.shape[-1], "keypoints": _named(names, each.keypoints.tolist())}
            for each in made
        ]
        print(json.dumps({"images": len(made), "poses": rows}))
    else:
        for each in made:
            places = (f"{name} {x:.1f} {y:.1f}" for name, (x, y, _) in zip(names, each.keypoints, strict=True))
            print("\t".join([each.image, *places]))
    if arguments.out is not None:
        files = [Path(each.image).name for each in made]
        picture = plot_poses([each.pixels for each in made], files, [each.keypoints for each in made])
        write_picture(arguments.out, picture, count=len(made), most=SHEET)


def _named(names: tuple[str, ...], keypoints: list[list[float]]) -> dict[str, list[float]]:
    """x, y and the height of the heat map there, by keypoint."""
    return dict(zip(names, keypoints, strict=True))
