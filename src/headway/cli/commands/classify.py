"""`headway classify`."""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from headway.cli import options
from headway.cli.lines import blocks, stdin_lines, write_lines
from headway.errors import ConfigError

LINES_AT_ONCE = 512  # a stdin of any size streams through

if TYPE_CHECKING:
    from headway.tasks.capabilities import Classifies
    from headway.tasks.classifier import Prediction

HELP = "the likeliest classes of each image, sound, text or set of vectors"
EXAMPLES = (
    "headway classify runs/shapes photo.png --top 3 --out said.png",
    "headway classify runs/reviews 'a film to see twice'",
    "headway classify runs/swarms swarms.csv --json",
)


def add_arguments(parser: ArgumentParser) -> None:
    """Which inputs, how many classes, and what to draw."""
    options.add_run(parser)
    parser.add_argument(
        "input",
        nargs="*",
        metavar="INPUT",
        help="images (PNG, JPEG, …), WAV files, files of vectors (.npz, .csv); texts, by default from stdin",
    )
    parser.add_argument(
        "--top", type=options.positive, default=5, metavar="K", help="classes of each (default: %(default)s)"
    )
    options.add_precision(parser)
    parser.add_argument("--out", metavar="FILE.png", help="the images with their classes drawn below")
    parser.add_argument("--patches", metavar="FILE.png", help="the first image as the patches the model reads")
    options.add_json(parser, "one object on stdout")


def execute(arguments: Namespace) -> None:
    """A line for each image, sound, text or set: the input, then its classes with probabilities, tabs between."""
    from headway.cli.outputs import PNG, expect_outputs
    from headway.decoding.non_finite import numbered
    from headway.runs import load
    from headway.tasks.capabilities import Classifies

    expect_outputs(arguments, out=PNG, patches=PNG, stdout_has="the classes")
    pipeline = load(arguments.run, device=arguments.device, precision=arguments.precision).require(Classifies)
    _check(pipeline, arguments)
    predictions: list[Prediction] = []
    done = 0
    for block in blocks(arguments.input or stdin_lines(), LINES_AT_ONCE):
        with numbered(range(done, done + len(block))):
            found = pipeline.classify(block, top=arguments.top)
        done += len(block)
        if arguments.json or pipeline.reads == "image":
            predictions += found
        if not arguments.json:
            write_lines([_line(each) for each in found])
    if arguments.json:
        rows = [{pipeline.reads: each.given, **_values(each)} for each in predictions]
        print(json.dumps({f"{pipeline.reads}s": len(predictions), "predictions": rows}))
    _draw(pipeline, predictions, out=arguments.out, patches=arguments.patches)


def _values(prediction: Prediction) -> dict[str, object]:
    if prediction.number is not None:
        return {"number": prediction.number}
    (name, share), *_ = prediction.top
    return {"class": name, "probability": share, "top": dict(prediction.top)}


def _line(prediction: Prediction) -> str:
    if prediction.number is not None:
        return f"{prediction.given}\t{prediction.number:.6g}"
    return "\t".join([prediction.given, *(f"{name} {share:.1%}" for name, share in prediction.top)])


def _check(pipeline: Classifies, arguments: Namespace) -> None:
    """Raise ConfigError, before anything is computed, for what this classifier cannot be asked."""
    if not arguments.input and pipeline.reads != "text":
        raise ConfigError(f"no {pipeline.reads}: {arguments.run} classifies files, name at least one")
    if pipeline.reads == "image":
        if arguments.patches is not None and not pipeline.cuts_patches:
            raise ConfigError(
                f"--patches: {arguments.run} does not read images as patches; only a vision transformer does"
            )
        return
    for flag in ("out", "patches"):
        if getattr(arguments, flag) is not None:
            raise ConfigError(f"--{flag} draws images; {arguments.run} classifies {pipeline.reads}s")


def _draw(pipeline: Classifies, predictions: Sequence[Prediction], *, out: str | None, patches: str | None) -> None:
    """The pictures that were asked for."""
    if out is None and patches is None:
        return
    from headway.cli.outputs import write_picture
    from headway.plots.attention import plot_patches
    from headway.plots.images import SHEET, plot_predictions

    pixels = [each.pixels for each in predictions if each.pixels is not None]
    if out is not None:
        names = [Path(each.image).name for each in predictions]
        picture = plot_predictions(pixels, names, [each.top for each in predictions])
        write_picture(out, picture, count=len(predictions), most=SHEET)
    if patches is not None:
        read = pipeline.patches(pixels[0])
        picture = plot_patches(pixels[0], read.patches, read.copies)
        write_picture(patches, picture, count=len(predictions), most=1)
