"""`headway caption`."""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace
from pathlib import Path

from headway.cli import options

HELP = "a sentence about each image"
EXAMPLES = ("headway caption runs/captioner-rnn photo.png --out said.png",)


def add_arguments(parser: ArgumentParser) -> None:
    """Which images, how to search, and what to draw."""
    options.add_run(parser)
    parser.add_argument("image", nargs="+", metavar="IMAGE", help="files that Pillow reads: PNG, JPEG, WebP, …")
    parser.add_argument("--beam", type=options.positive, metavar="N", help="beam size (default: the recipe's)")
    options.add_precision(parser)
    parser.add_argument("--out", metavar="FILE.png", help="the images with their captions drawn below")
    parser.add_argument("--attention", metavar="FILE.png", help="the attention of each word, drawn over the images")
    options.add_json(parser, "one object on stdout")


def execute(arguments: Namespace) -> None:
    """A line for each image: its file and its caption, a tab between."""
    from headway.cli.loading import load_run
    from headway.cli.outputs import PNG, expect_outputs, write_picture
    from headway.plots.attention import DRAWN, plot_attention
    from headway.plots.images import SHEET, plot_captions
    from headway.tasks.capabilities import Captions

    expect_outputs(arguments, out=PNG, attention=PNG, stdout_has="the captions")
    found = load_run(arguments)
    pipeline = found.require(Captions)
    captions = pipeline.caption(arguments.image, beam=arguments.beam)
    if arguments.json:
        rows = [
            {"image": each.image, "caption": each.text, "log_probability": each.log_probability} for each in captions
        ]
        print(json.dumps({"images": len(captions), "captions": rows}))
    else:
        for each in captions:
            print(f"{each.image}\t{each.text}")
    pixels, names = [each.pixels for each in captions], [Path(each.image).name for each in captions]
    if arguments.out is not None:
        picture = plot_captions(pixels, names, [each.text for each in captions])
        write_picture(arguments.out, picture, count=len(captions), most=SHEET)
    if arguments.attention is not None:
        maps = pipeline.attention_maps(captions[:DRAWN])
        words, weights = [each.words for each in maps], [each.weights for each in maps]
        picture = plot_attention(pixels[:DRAWN], names[:DRAWN], words, weights)
        write_picture(arguments.attention, picture, count=len(captions), most=DRAWN)
