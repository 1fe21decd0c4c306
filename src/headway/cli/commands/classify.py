"""`headway classify`."""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace
from pathlib import Path

from headway.cli import options
from headway.errors import ConfigError

HELP = "the likeliest classes of each image or sound"
EXAMPLES = ("headway classify runs/shapes photo.png --top 3 --out said.png",)


def add_arguments(parser: ArgumentParser) -> None:
    """Which inputs, how many classes, and what to draw."""
    options.add_run(parser)
    parser.add_argument("image", nargs="+", metavar="IMAGE", help="what Pillow reads: PNG, JPEG, …; or WAV files")
    parser.add_argument(
        "--top", type=options.positive, default=5, metavar="K", help="classes of each (default: %(default)s)"
    )
    options.add_precision(parser)
    parser.add_argument("--out", metavar="FILE.png", help="the images with their classes drawn below")
    parser.add_argument("--patches", metavar="FILE.png", help="the first image as the patches the model reads")
    options.add_json(parser, "one object on stdout")


def execute(arguments: Namespace) -> None:
    """A line for each image: its file, then its likeliest classes with their probabilities, tabs between."""
    from headway.cli.pictures import expect_png, write_picture
    from headway.models import VitConfig
    from headway.plots.attention import plot_patches
    from headway.plots.images import SHEET, plot_predictions
    from headway.runs import load
    from headway.tasks.captioning.attention_maps import cut
    from headway.tasks.image_classification.training import Classification

    for flag in ("out", "patches"):
        expect_png(flag, getattr(arguments, flag))
    found = load(arguments.run, device=arguments.device, precision=arguments.precision)
    model, task = found.config.model, found.config.task
    if arguments.patches is not None and not isinstance(model, VitConfig):
        raise ConfigError(f"--patches: {arguments.run} cuts no image into patches, only a vision transformer does")
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
    pixels, names = [each.pixels for each in made], [Path(each.image).name for each in made]
    if arguments.out is not None:
        picture = plot_predictions(pixels, names, [each.top for each in made])
        write_picture(arguments.out, picture, count=len(made), most=SHEET)
    if arguments.patches is not None and isinstance(model, VitConfig) and isinstance(task, Classification):
        read = cut(model, pixels[0], task.mean)
        write_picture(arguments.patches, plot_patches(pixels[0], read.patches, read.copies), count=len(made), most=1)
