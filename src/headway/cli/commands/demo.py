"""`headway demo`: train and try an English-French transformer on built-in data."""

from __future__ import annotations

import time
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import cast

from headway.cli import options

HELP = "train and try an English-French transformer on built-in data"
EXAMPLES = ("headway demo --steps 400",)
SENTENCES = (
    "a cute puppy",
    "the old horse is not in the garden.",
    "my aunt bought a red car.",
    "do the children like this film?",
    "we are going to eat the beautiful apples.",
    "she has three small cats.",
    "where is the key?",
    "i never drink coffee in the evening.",
    "his sister is taller than her father.",
    "there is a bird on the white house.",
    "these women work at the hospital.",
    "why do you not open the window?",
)


def add_arguments(parser: ArgumentParser) -> None:
    """Where the run goes, and how long to train."""
    parser.add_argument("--out", metavar="DIR", default="runs/demo", help="the run folder (default: %(default)s)")
    parser.add_argument("--steps", type=options.positive, help="of training (default: the recipe's)")


def execute(arguments: Namespace) -> None:
    """Train English to French on `phrases`, report both held-out splits, translate a dozen sentences, write a page."""
    from rich.markup import escape

    from headway.cli.console import SafeConsole
    from headway.cli.outputs import expect_folder
    from headway.cli.training import train_and_draw
    from headway.config import override
    from headway.presets.recipes import demo
    from headway.runs import load
    from headway.tasks.translation.pipeline import TranslationPipeline

    expect_folder(arguments.out)
    console, folder = SafeConsole(), Path(arguments.out)
    config = demo()
    if arguments.steps:
        every = max(arguments.steps // 4, 1)
        changes = {"train.steps": arguments.steps, "train.evaluate_every": every, "train.save_every": every}
        config = override(config, changes)
    console.print("Training a small transformer from English to French on generated phrases.")
    started = time.perf_counter()
    train_and_draw(config, folder, resume=(folder / "checkpoints").exists())
    console.print(f"Trained in {time.perf_counter() - started:.0f} s, into {escape(str(folder))}.\n")
    run = load(folder)
    pipeline = cast(TranslationPipeline, run.pipeline)
    for split, what in (("test", "sentences never seen"), ("unseen", "words never seen together")):
        report = pipeline.translate_split(split).report
        console.print(f"{split:7} ({what}): BLEU {report.bleu:.1f}, {report.exact_match:.1%} exactly right")
    console.print()
    for line, translation in zip(SENTENCES, run.translate(SENTENCES), strict=True):
        console.print(f"  {line}\n    [bold]{escape(translation)}[/bold]")
    page = folder / "page.html"
    run.look(SENTENCES[0], page)
    console.print(f"\nWhat it did with '{SENTENCES[0]}', to open in a browser: {escape(str(page))}")
    console.print(f"Yours to try: headway translate {escape(str(folder))} 'the small cat sleeps.'")
