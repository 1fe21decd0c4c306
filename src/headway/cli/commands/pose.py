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
    from headway.cli.loading import load_run
    from headway.cli.outputs import PNG, expect_outputs, write_picture
    from headway.plots.images import SHEET
    from headway.plots.poses import plot_poses
    from headway.tasks.capabilities import EstimatesPose

    expect_outputs(arguments, out=PNG, stdout_has="the keypoints")
    found = load_run(arguments)
    pipeline = found.require(EstimatesPose)
    names, poses = pipeline.keypoint_names, pipeline.pose(arguments.image)
    if arguments.json:
        rows = [each.to_json(names) for each in poses]
        print(json.dumps({"images": len(poses), "poses": rows}))
    else:
        for each in poses:
            places = (f"{name} {x:.1f} {y:.1f}" for name, (x, y, _) in zip(names, each.keypoints, strict=True))
            print("\t".join([each.image, *places]))
    if arguments.out is not None:
        files = [Path(each.image).name for each in poses]
        picture = plot_poses([each.pixels for each in poses], files, [each.keypoints for each in poses])
        write_picture(arguments.out, picture, count=len(poses), most=SHEET)
