"""`headway export`."""

from __future__ import annotations

import sys
from argparse import Namespace
from pathlib import Path

from headway.interop.exporting import Exporting, export
from headway.runs import load
from headway.tasks.classification import Classification
from headway.tasks.pose import PoseEstimation


def run(arguments: Namespace) -> None:
    """Hand a run out as a model folder; what was compared goes to stderr, the folder's name to stdout."""
    found = load(arguments.run, device="cpu", average=arguments.average)
    task = None if isinstance(found.config.task, Classification | PoseEstimation) else found.config.task
    what = Exporting(model=found.model, config=found.config.model, task=task, tokenizers=found.tokenizers)
    proof = export(what, Path(arguments.out))
    for name in proof.left_out:
        print(f"headway: note: {name} has no place in {proof.family} and is left out", file=sys.stderr)
    if proof.zeros:
        print(f"headway: note: {proof.zeros} biases this run does without are zeros there", file=sys.stderr)
    print(
        f"headway: {proof.family}; loaded again by {proof.reloaded_with}: largest difference "
        f"{proof.largest_difference:.2g} of logits up to {proof.largest_logit:.3g} (allowed: {proof.bound:.2g}), "
        f"{proof.tokens_generated} tokens generated alike, {proof.texts_compared} texts tokenised alike",
        file=sys.stderr,
    )
    print(arguments.out)
