"""`headway lab`: the decks' experiments."""

from __future__ import annotations

from argparse import Namespace
from collections import Counter

import torch
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from headway.cli import lab_positions
from headway.errors import ConfigError
from headway.labs import sentences
from headway.models import RnnLm

COUNT = 1000


LABS = {
    "sentences": "deck 002's language model of three sentences, fed its own words and not",
    "positions": "learned, sinusoidal, rotary, ALiBi and no positions: loss by length, beyond that of training",
}
STEPS = 400


def run(arguments: Namespace) -> None:
    """Run a lab, or say which there are."""
    if arguments.name is None:
        print("\n".join(f"{name}: {what}" for name, what in LABS.items()))
    elif arguments.name not in LABS:
        raise ConfigError(f"no lab {arguments.name!r}, there are: {', '.join(LABS)}")
    elif arguments.name == "positions":
        lab_positions.run(arguments)
    else:
        if arguments.overrides:
            raise ConfigError(f"{arguments.overrides[0]}: lab sentences has no settings but --seed and --steps")
        three_sentences(seed=arguments.seed, steps=arguments.steps or STEPS)


def three_sentences(*, seed: int, steps: int) -> None:
    """Train with and without feedback, sample from both, say what came out."""
    torch.set_num_threads(1)  # matrices of 32 × 32: a second thread only waits for the first
    console = Console(highlight=False)
    console.print("The whole world of this language model is three sentences:")
    for sentence in sentences.SENTENCES:
        console.print(f"  {sentence}")
    for feed_back in (True, False):
        title = "fed its own words" if feed_back else "not fed its own words"
        model, nats = _train(console, title, seed=seed, steps=steps, feed_back=feed_back)
        lines = sentences.samples(model, COUNT, seed=seed, feed_back=feed_back)
        share = sentences.share_of_sentences(lines)
        console.print(f"\n[bold]{title}[/bold]: {nats:.4f} nats per token", end="")
        console.print(f" (no model can go below {sentences.FLOOR:.4f})" if feed_back else "")
        console.print(f"  {share:.1%} of {COUNT:,} samples are one of the three sentences; the most frequent:")
        for line, count in Counter(lines).most_common(5):
            console.print(f"  {count:4d} × {line or '(nothing)'}")
    console.print("\nPast outputs must influence future outputs: that is what feeding back does.")


def _train(console: Console, title: str, *, seed: int, steps: int, feed_back: bool) -> tuple[RnnLm, float]:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[loss]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(f"training, {title}", total=steps, loss="")

        def progress(step: int, nats: float) -> None:
            bar.update(task, completed=step, loss=f"loss {nats:.4f}")

        return sentences.train(steps=steps, seed=seed, feed_back=feed_back, progress=progress)
