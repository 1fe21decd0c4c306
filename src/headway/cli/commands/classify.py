"""`headway classify`."""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from headway.cli import options
from headway.cli.lines import LineCounter, blocks, note_files, stdin_lines, write_lines
from headway.cli.table_lines import lines_of_table, table_among
from headway.errors import ConfigError

LINES_AT_ONCE = 512  # a stdin of any size streams through

if TYPE_CHECKING:
    from headway.cli.jobs import JobWork
    from headway.tasks.capabilities import Classifies
    from headway.tasks.classifier import Prediction

HELP = "the likeliest classes of each image, sound, text or set of vectors, or the number of each text or set"
EXAMPLES = (
    "headway classify runs/shapes photo.png --top 3 --out said.png",
    "headway classify runs/reviews 'a film to see twice'",
    "headway classify runs/reviews --out said.jsonl < reviews.txt    a JSON object for each line",
    "headway classify runs/reviews 'a film to see twice' --words    how much each word counts",
    "headway classify runs/reviews new.csv --out said.jsonl    the rows of a table, by its column of texts",
    "headway classify runs/swarms swarms.csv --json",
)
LINES = (".jsonl",)


def add_arguments(parser: ArgumentParser) -> None:
    """Which inputs, how many classes, and what to draw."""
    options.add_run(parser)
    options.add_adapter(parser)
    parser.add_argument(
        "input",
        nargs="*",
        metavar="INPUT",
        help="images (PNG, JPEG, …), WAV files, files of vectors (.npz, .csv); texts, a pair with a tab between, by "
        "default lines of stdin; or a table of texts (.csv, .tsv, .jsonl, .parquet)",
    )
    parser.add_argument(
        "--text", metavar="COLUMN", help="of a table of texts: the column to classify (default: as the run was trained)"
    )
    parser.add_argument(
        "--top", type=options.positive, metavar="K", help="classes of each (default: 5; all of several labels)"
    )
    parser.add_argument(
        "--words",
        action="store_true",
        help="of texts: below each, its words with what they add to the probability (in points) or to the number: the "
        "answer to the text less that to the text without the word",
    )
    options.add_precision(parser)
    parser.add_argument(
        "--out",
        metavar="FILE",
        help="FILE.jsonl: a JSON object a line; FILE.png: the images with their classes below; with --input: a folder",
    )
    parser.add_argument("--patches", metavar="FILE.png", help="the first image as the patches the model reads")
    options.add_json(parser, "one object on stdout")
    options.add_job(parser, out=False)


def execute(arguments: Namespace) -> None:
    """A line for each image, sound, text or set: the input, then its classes with probabilities, tabs between.

    Of a classifier of several labels those above the threshold come first; of numbers there is the number alone.
    """
    if options.is_job(arguments, never=("input", "patches", "words", "text"), only=()):
        from headway.cli.jobs import run_job
        from headway.runs.jobs import TextOutput

        run_job(arguments, TextOutput(), lambda: _job(arguments))
        return

    from headway.cli.loading import load_run
    from headway.cli.outputs import PNG, expect_outputs, write_output
    from headway.decoding.non_finite import numbered
    from headway.tasks.capabilities import Classifies

    expect_outputs(arguments, out=(*PNG, *LINES), patches=PNG, stdout_has="the classes")
    run = load_run(arguments)
    pipeline = run.require(Classifies)
    _check(pipeline, arguments)
    inputs: Iterable[str] = arguments.input or stdin_lines()
    if pipeline.reads == "text":
        if (table := table_among(arguments)) is not None:
            inputs = lines_of_table(table, run.config.data, arguments.text)
        else:
            note_files(arguments.input, "classify")
    keeps = _writes_lines(arguments.out)
    predictions: list[Prediction] = []
    with LineCounter() as counter:
        for block in blocks(inputs, LINES_AT_ONCE):
            with numbered(range(counter.count, counter.count + len(block))):
                found = _classified(pipeline, block, arguments)
            if arguments.json or keeps or pipeline.reads == "image":
                predictions += found
            if not arguments.json:
                write_lines([line for each in found for line in (each.line, *each.word_lines)])
            counter.advance(len(block))
    rows = [each.to_json(pipeline.reads) for each in predictions] if arguments.json or keeps else []
    if arguments.json:
        print(json.dumps({f"{pipeline.reads}s": len(predictions), "predictions": rows}))
    if keeps:
        lines = "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows)
        write_output(arguments.out, lines, f"{len(rows):,} predictions in {arguments.out}")
    _draw(pipeline, predictions, out=None if keeps else arguments.out, patches=arguments.patches)


def _classified(pipeline: Classifies, block: Sequence[str], arguments: Namespace) -> list[Prediction]:
    found = pipeline.classify(block) if arguments.top is None else pipeline.classify(block, top=arguments.top)
    if not arguments.words:
        return found
    from dataclasses import replace  # with its imports, a quarter of what `headway --help` would wait for

    return [replace(each, words=tuple(pipeline.word_changes(each.given))) for each in found]


def _job(arguments: Namespace) -> JobWork:
    from headway.cli.jobs import JobWork
    from headway.cli.loading import load_run
    from headway.tasks.capabilities import Classifies

    run = load_run(arguments)
    pipeline = run.require(Classifies)

    def answer(block: Sequence[str], before: int) -> list[str]:
        return [each.line for each in _classified(pipeline, block, arguments)]

    return JobWork(runs=[run], answer=answer, lines_at_once=LINES_AT_ONCE)


def _writes_lines(out: str | None) -> bool:
    return out is not None and Path(out).suffix.lower() in LINES


def _check(pipeline: Classifies, arguments: Namespace) -> None:
    """Raise ConfigError, before anything is computed, for options that this classifier does not support."""
    if arguments.words and pipeline.reads != "text":
        raise ConfigError(f"--words is for classifiers of texts; {arguments.run} classifies {pipeline.reads}s")
    if not arguments.input and pipeline.reads != "text":
        raise ConfigError(f"no {pipeline.reads}: {arguments.run} classifies files, name at least one")
    folder = next((each for each in arguments.input if pipeline.reads != "text" and Path(each).is_dir()), None)
    if folder is not None:
        raise ConfigError(
            f"{folder} is a folder, expected files: {Path(folder) / '*'} names them, and `headway evaluate "
            f"{arguments.run} --data FOLDER` measures on class folders"
        )
    if pipeline.reads == "image":
        if arguments.patches is not None and not pipeline.cuts_patches:
            raise ConfigError(
                f"--patches: {arguments.run} does not read images as patches; only a vision transformer does"
            )
        return
    for flag in ("out", "patches"):
        target = getattr(arguments, flag)
        if target is not None and not _writes_lines(target):
            hint = ": name a FILE.jsonl" if flag == "out" else ""
            raise ConfigError(f"--{flag} draws images; {arguments.run} classifies {pipeline.reads}s{hint}")


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
