"""Signals during training: SIGHUP saves as SIGTERM does, unless it is ignored."""

from __future__ import annotations

import os
import signal

import pytest

from headway.training.signals import Interrupted
from tests.training.small import Silent, losses, state_hash, trainer


class Sends(Silent):
    """Sends a signal after a step."""

    def __init__(self, number: int, at: int) -> None:
        super().__init__()
        self.number, self.at = number, at

    def step(self, entry: dict) -> None:
        if entry["step"] == self.at:
            os.kill(os.getpid(), self.number)


class Gone(Sends):
    """And its terminal is gone by then."""

    def note(self, text: str) -> None:
        raise OSError(5, "Input/output error")


def listened(folder, callback):
    """A trainer of the small run with a callback of its own."""
    made = trainer(folder)
    made.callback = callback
    made.stop_request.note = callback.note
    return made


@pytest.mark.parametrize("kind", [Sends, Gone])
@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM])
def test_a_signal_saves_and_the_rest_of_the_run_is_the_uninterrupted_one(tmp_path, number, kind):
    straight = trainer(tmp_path / "straight")
    straight.train()
    made = listened(tmp_path / "stopped", kind(number, 5))
    with pytest.raises(Interrupted, match=f"stopped by {signal.Signals(number).name} and saved at step 5") as stopped:
        made.train()
    assert stopped.value.exit_code == 128 + number
    assert f"headway train --out {tmp_path / 'stopped'} --resume continues it" in str(stopped.value)
    again = trainer(tmp_path / "stopped")
    assert again.resume()
    again.train()
    assert state_hash(again) == state_hash(straight)
    assert losses(tmp_path / "stopped") == losses(tmp_path / "straight")


def test_under_nohup_training_goes_on(tmp_path):
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        made = listened(tmp_path, Sends(signal.SIGHUP, 5))
        made.train()
    finally:
        signal.signal(signal.SIGHUP, before)
    assert made.step == made.config.steps
