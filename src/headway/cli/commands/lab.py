"""`headway lab`: the decks' experiments."""

from __future__ import annotations

from argparse import Namespace
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from headway.cli import lab_positions
from headway.cli import report as show
from headway.errors import ConfigError
from headway.labs import pondering, sentences
from headway.models import RnnLm
from headway.plots.ponder import plot_ponder
from headway.storage.commit import commit_file

COUNT = 1000
SHOWN = ("12345+54321", "1+9", "12399+1", "19999+1", "99999+1", "45454+54546")  # of the ponder map

LABS = {
    "sentences": "deck 002's language model of three sentences, fed its own words and not",
    "positions": "learned, sinusoidal, rotary, ALiBi and no positions: loss by length, beyond that of training",
    "pondering": "a Universal Transformer adds, and thinks longer where a carry comes from afar",
}


def run(arguments: Namespace) -> None:
    """Run a lab, or say which there are."""
    if arguments.name is None:
        print("\n".join(f"{name}: {what}" for name, what in LABS.items()))
    elif arguments.name not in LABS:
        raise ConfigError(f"no lab {arguments.name!r}, there are: {', '.join(LABS)}")
    elif arguments.plot is not None and (arguments.name != "pondering" or Path(arguments.plot).suffix != ".png"):
        raise ConfigError(f"--plot {arguments.plot}, allowed: a name that ends in .png, for the lab pondering")
    elif arguments.name == "positions":
        lab_positions.run(arguments)
    elif arguments.overrides:
        raise ConfigError(f"{arguments.overrides[0]}: lab {arguments.name} has no settings but --seed and --steps")
    elif arguments.name == "pondering":
        carries(seed=arguments.seed, steps=arguments.steps or 1300, plot=arguments.plot)
    else:
        three_sentences(seed=arguments.seed, steps=arguments.steps or 400)


def carries(*, seed: int, steps: int, plot: str | None) -> None:
    """Train the adder, say how many steps its columns take, draw a few sums."""
    torch.set_num_threads(1)
    console = Console(highlight=False)
    with _bar("training", steps) as progress:
        model = pondering.train(steps=steps, seed=seed, progress=progress)
    for title, data in (
        ("held-out sums of the set addition", pondering.load_sums("test")),
        ("sums in which carries travel", pondering.random_sums(2000, torch.Generator().manual_seed(seed + 2))),
    ):
        right, taken = pondering.predict(model, data)
        console.print(f"\n[bold]{title}[/bold]: {right.float().mean():.2%} of the digits are right")
        for given, name in ((1, "with a carry"), (0, "without one")):
            console.print(f"  columns {name}: {taken[data.carries == given].float().mean():.2f} steps")
        rows = [
            [str(chain), f"{mean:.2f}", f"{count:,}"]
            for chain, (mean, count) in pondering.steps_by_chain(taken, data).items()
        ]
        console.print(show.figures(["columns to ask", "steps", "columns"], rows))
        console.print(f"  correlation of the two: {pondering.correlation(taken, data.chains):.2f}")
    if plot is not None:
        commit_file(Path(plot), _map(model))


def _map(model: pondering.Adder) -> bytes:
    numbers = [[part.zfill(pondering.COLUMNS) for part in line.split("+")] for line in SHOWN]
    labels = [[f"{a}+{b}" for a, b in zip(*pair, strict=True)] for pair in numbers]
    a, b = (torch.tensor([[int(digit) for digit in pair[side]] for pair in numbers]) for side in (0, 1))
    taken = pondering.predict(model, pondering.sums(a, b))[1].tolist()
    return plot_ponder(labels, taken, "steps a column took", names=[line.replace("+", " + ") for line in SHOWN])


def three_sentences(*, seed: int, steps: int) -> None:
    """Train with and without feedback, sample from both, say what came out."""
    torch.set_num_threads(1)  # matrices of 32 × 32: a second thread only waits for the first
    console = Console(highlight=False)
    console.print("The whole world of this language model is three sentences:")
    for sentence in sentences.SENTENCES:
        console.print(f"  {sentence}")
    for feed_back in (True, False):
        title = "fed its own words" if feed_back else "not fed its own words"
        model, nats = _train(title, seed=seed, steps=steps, feed_back=feed_back)
        lines = sentences.samples(model, COUNT, seed=seed, feed_back=feed_back)
        share = sentences.share_of_sentences(lines)
        console.print(f"\n[bold]{title}[/bold]: {nats:.4f} nats per token", end="")
        console.print(f" (no model can go below {sentences.FLOOR:.4f})" if feed_back else "")
        console.print(f"  {share:.1%} of {COUNT:,} samples are one of the three sentences; the most frequent:")
        for line, count in Counter(lines).most_common(5):
            console.print(f"  {count:4d} × {line or '(nothing)'}")
    console.print("\nPast outputs must influence future outputs: that is what feeding back does.")


def _train(title: str, *, seed: int, steps: int, feed_back: bool) -> tuple[RnnLm, float]:
    with _bar(f"training, {title}", steps) as progress:
        return sentences.train(steps=steps, seed=seed, feed_back=feed_back, progress=progress)


@contextmanager
def _bar(title: str, steps: int) -> Iterator[Callable[[int, float], None]]:
    """A progress bar on stderr, told of each step and its loss."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[loss]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=steps, loss="")

        def progress(step: int, nats: float) -> None:
            bar.update(task, completed=step, loss=f"loss {nats:.4f}")

        yield progress
