"""`headway caption`."""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from headway.cli import options
from headway.errors import ConfigError

if TYPE_CHECKING:
    from headway.cli.jobs import JobWork
    from headway.tasks.captioning.pipeline import Caption

IMAGES_AT_ONCE = 64  # of a job

HELP = "a sentence about each image"
EXAMPLES = ("headway caption runs/captioner-rnn photo.png --out said.png",)


def add_arguments(parser: ArgumentParser) -> None:
    """Which images, how to search, and what to draw."""
    options.add_run(parser)
    parser.add_argument("image", nargs="*", metavar="IMAGE", help="files that Pillow reads: PNG, JPEG, WebP, …")
    parser.add_argument("--beam", type=options.positive, metavar="N", help="beam size (default: the recipe's)")
    options.add_precision(parser)
    parser.add_argument(
        "--out", metavar="FILE.png", help="the images with their captions drawn below; with --input: the job's folder"
    )
    parser.add_argument("--attention", metavar="FILE.png", help="the attention of each word, drawn over the images")
    options.add_json(parser, "one object on stdout")
    options.add_job(parser, out=False)


def execute(arguments: Namespace) -> None:
    """A line for each image: its file and its caption, a tab between."""
    if options.is_job(arguments, never=("image", "attention"), only=()):
        from headway.cli.jobs import run_job
        from headway.runs.jobs import TextOutput

        run_job(arguments, TextOutput(), lambda: _job(arguments))
        return
    if not arguments.image:
        raise ConfigError("no image: name at least one, or --input FILE with the name of an image on each line")

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
        print(json.dumps({"images": len(captions), "captions": [each.to_json() for each in captions]}))
    else:
        for each in captions:
            print(_line(each))
    pixels, names = [each.pixels for each in captions], [Path(each.image).name for each in captions]
    if arguments.out is not None:
        picture = plot_captions(pixels, names, [each.text for each in captions])
        write_picture(arguments.out, picture, count=len(captions), most=SHEET)
    if arguments.attention is not None:
        maps = pipeline.attention_maps(captions[:DRAWN])
        words, weights = [each.words for each in maps], [each.weights for each in maps]
        picture = plot_attention(pixels[:DRAWN], names[:DRAWN], words, weights)
        write_picture(arguments.attention, picture, count=len(captions), most=DRAWN)


def _line(caption: Caption) -> str:
    return f"{caption.image}\t{caption.text}"


def _job(arguments: Namespace) -> JobWork:
    from headway.cli.jobs import JobWork
    from headway.cli.loading import load_run
    from headway.tasks.capabilities import Captions

    run = load_run(arguments)
    pipeline = run.require(Captions)

    def answer(block: Sequence[str], before: int) -> list[str]:
        return [_line(each) for each in pipeline.caption(block, beam=arguments.beam)]

    return JobWork(runs=[run], answer=answer, lines_at_once=IMAGES_AT_ONCE)
