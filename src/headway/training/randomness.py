"""What dropout draws from: torch's default generators, seeded anew for each micro-batch of each step.

So the masks of a micro-batch are a function of (seed, step, its number in the step): they depend neither on the rank
that computes it nor on what was computed before, and nothing of the generators has to be saved.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import torch
from torch import Tensor

# Of a training step, in trainer.json. 1: one running stream, micro-batches added one after the other; 2: a stream for
# each micro-batch, epochs laid out by numpy's generator; 3: an order by formula (headway.data.batching)
VERSION = 3
STEP, VALIDATION = -1, -2  # in place of a micro-batch: what is drawn around the steps, and by a validation


class Randomness:
    """The streams of a run. With `running`, one stream for the whole run, as in version 1 and in CUDA graphs."""

    def __init__(self, seed: int, device: torch.device, *, running: bool = False) -> None:
        self.seed, self.device, self.running = seed, device, running
        if running:
            self._begin(seed + 1)
        else:
            self.at(0, STEP)

    def at(self, step: int, number: int) -> None:
        """Begin the stream of a micro-batch of the step after `step` steps; a running stream goes on."""
        if not self.running:
            key = hashlib.blake2b(f"{self.seed} {step} {number}".encode(), digest_size=8).digest()
            self._begin(int.from_bytes(key) >> 1)

    def _begin(self, seed: int) -> None:
        torch.default_generator.manual_seed(seed)
        if self.device.type == "cuda":
            torch.cuda.manual_seed(seed)

    def state(self) -> dict[str, Tensor]:
        """The generators of a running stream, by their names in a checkpoint."""
        kept = {"random.cpu": torch.get_rng_state()}
        return kept | ({"random.cuda": torch.cuda.get_rng_state(self.device)} if self.device.type == "cuda" else {})

    def restore(self, kept: Mapping[str, Tensor], step: int) -> None:
        """Go on after a checkpoint's step, by the generators that it kept if the stream runs on."""
        self.at(step, STEP)
        if self.running and "random.cpu" in kept:
            torch.set_rng_state(kept["random.cpu"])
        if self.running and self.device.type == "cuda" and "random.cuda" in kept:
            torch.cuda.set_rng_state(kept["random.cuda"], self.device)
