"""`headway pose`."""

from __future__ import annotations

import json
from argparse import Namespace
from pathlib import Path

from headway.cli.pictures import expect_png, write_picture
from headway.plots.images import SHEET
from headway.plots.poses import plot_poses
from headway.runs import load
from headway.tasks.capabilities import EstimatesPose


def run(arguments: Namespace) -> None:
    """A line for each image: its file, then each keypoint's name and place in pixels, tabs between."""
    expect_png("out", arguments.out)
    found = load(arguments.run, device=arguments.device, precision=arguments.precision)
    pipeline = found.require(EstimatesPose)
    names, poses = pipeline.keypoint_names, pipeline.pose(arguments.image)
    if arguments.json:
        rows = [
            {
                "image": each.image,
                "size": each.pixels.shape[-1],
                "keypoints": dict(zip(names, each.keypoints.tolist(), strict=True)),  # x, y, the heat there
            }
            for each in poses
        ]
        print(json.dumps({"images": len(poses), "poses": rows}))
    else:
        for each in poses:
            places = (f"{name} {x:.1f} {y:.1f}" for name, (x, y, _) in zip(names, each.keypoints, strict=True))
            print("\t".join([each.image, *places]))
    if arguments.out is not None:
        files = [Path(each.image).name for each in poses]
        picture = plot_poses([each.pixels for each in poses], files, [each.keypoints for each in poses])
        write_picture(arguments.out, picture, count=len(poses), most=SHEET)
