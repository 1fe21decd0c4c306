"""The rows that damage what is read, in their tiny form, and how they judge."""

from __future__ import annotations

import json
import os
import random
import shutil
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest

from headway.cli.reliability_table import CampaignBar
from headway.reliability import rows
from headway.reliability.answers import RUN, TWIN, Answer, copy, difference, digest, judge, listing, make_subjects
from headway.reliability.campaign import CampaignConfig, run_campaign
from headway.reliability.process import Ended, start
from headway.reliability.row import CampaignRow, Outcome, Place, Verdict

ROWS = ("bit-flips", "damaged-runs", "damaged-files", "commands", "hostile-folders")
TINY = CampaignConfig(trials=5, workers=1, tasks=("translation",))
EXCHANGED = "exchanged-run"
CLEAN = Answer(stdout=b"yes\n", written="", notes=frozenset({"headway: note: as always"}))


class ExchangedRun(CampaignRow):
    """A whole run in the place of another, which nothing can notice: the same question must be judged a failure."""

    name, what, requirement, trials = EXCHANGED, "another run", "F0", 5

    def prepare(self, place: Place) -> None:
        self.place, self.subjects = place, make_subjects(place)

    def trial(self, number: int, chance: random.Random) -> Outcome:
        def exchange(folder: Path, chance: random.Random) -> str:
            shutil.rmtree(folder / RUN)
            copy(self.subjects[0].folder / TWIN, folder / RUN)
            return "another run"

        return self.subjects[0].trial(self.place, chance, exchange)


def ended(code: int = 0, stdout: bytes = b"yes\n", stderr: bytes = b"headway: note: as always\n") -> Ended:
    return Ended(
        code=code, signal=None, stdout=stdout, stderr=stderr, memory=0, seconds=0.1, cpu_seconds=0.1, hung=False,
        too_large=False,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("found", "verdict"),
    [
        (ended(), Verdict.WITHOUT_EFFECT),
        (ended(stdout=b"no\n"), Verdict.FAILED),
        (ended(stdout=b"no\n", stderr=b"headway: note: step 3 is damaged\n"), Verdict.NOTICED),
        (ended(stdout=b"no\n", stderr=b"headway: one line in x.txt\n"), Verdict.FAILED),
        (ended(code=3, stdout=b"", stderr=b"headway: config.yaml is damaged\n"), Verdict.NOTICED),
        (ended(code=3, stdout=b"", stderr=b""), Verdict.FAILED),
        (ended(code=1, stdout=b"", stderr=b"headway: internal error\n"), Verdict.FAILED),
        (ended(code=3, stderr=b"Traceback (most recent call last):\nheadway: x\n"), Verdict.FAILED),
    ],
)  # fmt: skip
def test_another_answer_without_a_word_is_a_failure(found, verdict):
    assert judge(found, "", CLEAN).verdict is verdict


def test_another_file_without_a_word_is_a_failure():
    assert judge(ended(), "other", CLEAN).reason == "exit code 0, no note, and another answer: it wrote another file"


def test_a_difference_is_shown_where_it_begins():
    assert difference(b"a" * 500 + b"x", b"a" * 500 + b"y") == f"'{'a' * 20}x' became '{'a' * 20}y'"
    assert difference(b"ab", b"a") == "'ab' became 'a'"


def test_what_a_reader_may_change_is_the_int8_copy_and_its_output(tmp_path):
    for name in ("run/int8/model.safetensors", "run/config.yaml", "out/page.html"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert listing(tmp_path) == {"run", "run/config.yaml"}
    before = digest(tmp_path)
    (tmp_path / "run/config.yaml").write_text("x")
    assert digest(tmp_path) != before


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """The report of a tiny campaign, made in a child: it imports much, and must be the only thread of its process."""
    place = tmp_path_factory.mktemp("campaign")

    def work() -> None:
        os.environ["TMPDIR"], tempfile.tempdir = str(place), None
        rows.ROWS[EXCHANGED] = ExchangedRun.__name__
        sys.modules["headway.reliability.rows.exchanged_run"] = sys.modules[__name__]
        with CampaignBar() as bar:
            print(json.dumps(run_campaign(replace(TINY, rows=(*ROWS, EXCHANGED)), bar).to_json()))

    child = start(work, cpu_seconds=120).wait(seconds=240)
    assert child.code == 0, child.err
    assert list(Path(place).iterdir()) == []
    return json.loads(child.out)


@pytest.mark.parametrize("name", ROWS)
def test_no_trial_fails(found, name):
    row = next(row for row in found["rows"] if row["row"] == name)
    assert row["failed"] == []
    assert row["trials"] == TINY.trials


def test_another_answer_is_found(found):
    row = next(row for row in found["rows"] if row["row"] == EXCHANGED)
    assert any("exit code 0, no note, and another answer" in each["reason"] for each in row["failed"])
