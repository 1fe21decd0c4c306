"""`headway lab sentences`: a language model of three sentences, sampled with and without feeding its output back."""

from __future__ import annotations

from argparse import Namespace, _ActionsContainer
from collections import Counter

HELP = "a language model of three sentences, sampled with and without feeding its output back"
OVERRIDES = False
STEPS = 400
COUNT = 1000  # samples drawn from each model


def add_arguments(parser: _ActionsContainer) -> None:
    """This lab has no options of its own."""


def execute(arguments: Namespace) -> None:
    """Train with and without feedback, sample from both, print the most frequent samples."""
    import torch

    from headway.cli.console import SafeConsole
    from headway.cli.progress import lab_bar
    from headway.labs import sentences

    torch.set_num_threads(1)  # matrices of 32 × 32: a second thread only waits for the first
    console, seed, steps = SafeConsole(), arguments.seed, arguments.steps or STEPS
    console.print("The whole world of this language model is three sentences:")
    for sentence in sentences.SENTENCES:
        console.print(f"  {sentence}")
    for feed_back in (True, False):
        title = "fed its own words" if feed_back else "not fed its own words"
        with lab_bar(f"training, {title}", steps) as progress:
            model, nats = sentences.train(steps=steps, seed=seed, feed_back=feed_back, progress=progress)
        lines = sentences.samples(model, COUNT, seed=seed, feed_back=feed_back)
        share = sentences.share_of_sentences(lines)
        console.print(f"\n[bold]{title}[/bold]: {nats:.4f} nats per token", end="")
        console.print(f" (no model can go below {sentences.FLOOR:.4f})" if feed_back else "")
        console.print(f"  {share:.1%} of {COUNT:,} samples are one of the three sentences; the most frequent:")
        for line, count in Counter(lines).most_common(5):
            console.print(f"  {count:4d} × {line or '(nothing)'}")
    console.print("\nPast outputs must influence future outputs: that is what feeding back does.")
