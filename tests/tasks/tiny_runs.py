"""The tiny run of each task, trained in two sittings."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
import torch

from headway.reliability.runs import TinyRun
from headway.runs.train import train_run
from headway.training.signals import Interrupted
from tests.training.small import Silent


class InterruptedAt(Silent):
    """Sends the signal of a keyboard interrupt when a step is done."""

    def __init__(self, step: int) -> None:
        super().__init__()
        self.at = step

    def step(self, entry: dict[str, object]) -> None:
        if entry["step"] == self.at:
            os.kill(os.getpid(), signal.SIGINT)


def make_in_two_sittings(tiny: TinyRun, folder: Path, cache: Path) -> Path:
    """The run of a task, interrupted halfway and resumed."""
    config = tiny.config(cache)
    with pytest.raises(Interrupted, match=f"saved at step {tiny.steps // 2}"):
        train_run(config, folder, InterruptedAt(tiny.steps // 2))
    torch.rand(7)  # what happens between two sittings must not matter
    train_run(config, folder, Silent(), resume=True)
    return folder
