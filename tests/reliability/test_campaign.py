"""The campaign in its tiny form: some trials of each row, on the run of one task, and the command around it."""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import pytest

from headway.cli import main
from headway.cli.reliability_table import CampaignBar
from headway.errors import ConfigError
from headway.reliability import process, rows
from headway.reliability.campaign import CampaignConfig, run_campaign
from headway.reliability.process import Child, start
from headway.reliability.row import CampaignRow, Outcome, Place, failed, ok
from headway.reliability.rows import together

TINY = CampaignConfig(trials=2, workers=1, tasks=("language",))
OWN = ("kills", "crash-points", "signals", "rank-kills", "rank-faults", "full-disk", "together", "read-only")


class Waits(CampaignRow):
    """Trial 0 succeeds, trial 1 fails, the third raises, the fourth ends its process, the fifth waits."""

    name, what, requirement, trials, needs_runs = "waits", "waiting", "F0", 5, False

    def prepare(self, place: Place) -> None:
        self.place = place

    def trial(self, number: int, chance: random.Random) -> Outcome:
        if number == 2:
            raise ValueError("third")
        if number == 3:
            os._exit(1)
        if number == 4:
            (self.place.folder / "waiting").touch()
            start(lambda: time.sleep(60)).wait(seconds=60)
        return ok() if number == 0 else failed("it was the second one")


def command(*words: str, place: Path) -> Child:
    """`headway reliability` with the row `waits` alone, its temporary folder below `place`."""

    def work() -> int:
        os.environ["TMPDIR"], tempfile.tempdir = str(place), None
        rows.ROWS.clear()
        rows.ROWS["waits"] = "Waits"
        sys.modules["headway.reliability.rows.waits"] = sys.modules[__name__]
        process.warm_up = lambda: None
        return main(["reliability", "--workers", "1", *words])

    place.mkdir()
    return start(work, cpu_seconds=60)


def test_failures_exceptions_and_dead_workers_are_reported_with_how_to_repeat_them(tmp_path):
    ended = command("--minutes", "0.000001", "--json", place=tmp_path / "a").wait()
    assert ended.code == 1
    told = ["  waits:1: it was the second one", "waits: 2 trials, 1 failure in 0 s", "headway: 1 of 2 trials failed"]
    assert ended.err.splitlines() == told
    (row,) = json.loads(ended.out)["rows"]
    assert row["failed"] == [{"only": "waits:1", "reason": "it was the second one"}]
    for number, reason in ((2, r"ValueError: third (test_campaign.py:"), (3, "the worker process of this trial died")):
        ended = command("--only", f"waits:{number}", place=tmp_path / str(number)).wait()
        assert ended.code == 1
        assert f"waits:{number} {reason}" in ended.out
    assert command("--only", "waits:0", place=tmp_path / "b").wait().code == 0
    assert [path for place in tmp_path.iterdir() for path in place.iterdir()] == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_with_what_there_is_and_leaves_nothing_behind(tmp_path, number):
    child = command("--only", "waits:4", "--out", str(tmp_path / "page.html"), place=tmp_path / "place")
    until = time.monotonic() + 20
    while not list((tmp_path / "place").glob("*/waiting")) and time.monotonic() < until:
        time.sleep(0.01)
    child.send(number)
    ended = child.wait()
    assert ended.code == 128 + number
    assert "waits" in ended.out
    assert ended.err.endswith(f"headway: stopped by {number.name}\n")
    assert "ended early" in (tmp_path / "page.html").read_text()
    assert list((tmp_path / "place").iterdir()) == []


def test_an_unknown_row_is_refused():
    with pytest.raises(ConfigError, match="no row 'kill'; there are: kills, "):
        CampaignConfig(rows=("kill",))


def test_every_row_is_documented():
    documented = (Path(__file__).parents[2] / "docs/commands.md").read_text()
    for name in rows.ROWS:
        row = rows.row(name)
        assert row.name == name
        assert f"| `{name}` |" in documented


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """The report of a tiny campaign, made in a child: it imports much, and must be the only thread of its process."""
    place = tmp_path_factory.mktemp("campaign")

    def work() -> None:
        os.environ["TMPDIR"], tempfile.tempdir = str(place), None
        together.SECONDS = 3.0
        with CampaignBar() as bar:
            print(json.dumps(run_campaign(replace(TINY, rows=OWN), bar).to_json()))

    ended = start(work, cpu_seconds=120).wait(seconds=240)
    assert ended.code == 0, ended.err
    assert list(place.iterdir()) == []
    return json.loads(ended.out)


@pytest.mark.parametrize("name", OWN)
def test_no_trial_fails(found, name):
    row = next(row for row in found["rows"] if row["row"] == name)
    assert row["failed"] == []
    assert row["trials"] == (1 if name == "together" else 2)
