"""The launcher of `--nproc`: what it does when ranks end, fail, hang or are killed; small scripts stand for ranks."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import yaml

from headway.cli import main
from headway.cli.launching import ranks_of, without_option
from headway.cores import cores
from headway.reliability.process import start
from headway.reliability.rows.rank_kills import NOTICED
from headway.training import launching
from headway.training.launching import RESTARTS, Launcher

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="/proc, and processes that die with their parent")

SCRIPT = """
import os, signal, sys, time
from pathlib import Path
rank, attempt = int(os.environ["RANK"]), int(os.environ["TORCHELASTIC_RESTART_COUNT"])
job = Path(os.environ["HEADWAY_SAVED"]).parent
(job / f"started-{attempt}-{rank}").write_text(f"{os.getpid()} {' '.join(sys.argv[1:])}")
"""


@pytest.fixture
def make(tmp_path, monkeypatch):
    """A function that builds a launcher of two ranks which run this script."""
    for name, seconds in (("GRACE", 0.5), ("COLLATERAL", 0.5), ("STOPPED", 0.3)):
        monkeypatch.setattr(launching, name, seconds)

    def build(script: str, words: tuple[str, ...] = ()) -> Launcher:
        (tmp_path / "rank.py").write_text(SCRIPT + script)
        return ranks_of([sys.executable, "-S", str(tmp_path / "rank.py"), *words], 2, tmp_path)

    return build


def started(folder: Path) -> list[tuple[int, int]]:
    """The attempts and ranks that were started."""
    return sorted(tuple(map(int, path.name.split("-")[1:])) for path in folder.glob("started-*"))  # type: ignore[misc]


def alive(folder: Path) -> list[int]:
    """The ranks whose processes still run."""
    pids = [int(path.read_text().split()[0]) for path in folder.glob("started-*")]
    return [pid for pid in pids if Path(f"/proc/{pid}").exists()]


def test_a_killed_rank_ends_all_and_all_resume(make, tmp_path, capsys):
    made = make(
        "if attempt == 0:\n os.kill(os.getpid(), signal.SIGKILL) if rank else time.sleep(60)", ("train", "--out", "x")
    )
    begun = time.monotonic()
    assert made.run() == 0
    assert time.monotonic() - begun < 5
    assert started(tmp_path) == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert (tmp_path / "started-1-0").read_text().endswith(" train --out x")
    assert "rank 1 was ended by SIGKILL; all 2 ranks start again" in capsys.readouterr().err
    assert not alive(tmp_path)


def test_a_killed_rank_is_noticed_on_a_busy_machine(make, tmp_path):
    """Four processes compute on each core meanwhile."""
    made = make("if attempt == 0:\n time.sleep(60)")
    told: list[float] = []
    made.tell = lambda text: told.append(time.monotonic())  # once all others have ended, which is later than noticing
    killed: list[float] = []

    def kill() -> None:
        until = time.monotonic() + 60
        # A process may say that it was started before the launcher has noted it down.
        while (len(started(tmp_path)) < 2 or len(made.ranks) < 2) and time.monotonic() < until:
            time.sleep(0.05)
        killed.append(time.monotonic())
        made.ranks[1].process.kill()

    busy = [subprocess.Popen([sys.executable, "-S", "-c", "while True: pass"]) for _ in range(4 * cores())]
    try:
        killer = threading.Thread(target=kill)
        killer.start()
        assert made.run() == 0
        killer.join()
    finally:
        for each in busy:
            each.kill()
            each.wait()
    assert told[0] - killed[0] < NOTICED


@pytest.mark.parametrize("code", [2, 6, 9])
def test_an_error_that_would_repeat_itself_is_the_end(code, make, tmp_path, capsys):
    assert make(f"print('headway: why', file=sys.stderr)\nsys.exit({code}) if rank else time.sleep(60)").run() == code
    assert started(tmp_path) == [(0, 0), (0, 1)]
    assert "rank 1: why" in capsys.readouterr().err
    assert not alive(tmp_path)


def test_restarts_end_unless_checkpoints_are_written_between_them(make, tmp_path, capsys):
    assert make("sys.exit(1)").run() == 1
    assert {attempt for attempt, _ in started(tmp_path)} == set(range(RESTARTS + 1))
    assert f"given up after {RESTARTS} restarts" in capsys.readouterr().err
    saves = "if attempt < 6:\n if not rank: (job / 'saved').write_text(str(attempt)); time.sleep(0.05)\n sys.exit(1)"
    assert make(saves).run() == 0


def test_the_rank_whose_end_made_others_lose_contact_is_named(make, capsys):
    lost = "if attempt == 0:\n if rank: time.sleep(0.2); os.kill(os.getpid(), signal.SIGSEGV)\n sys.exit(10)"
    assert make(lost).run() == 0
    assert "rank 1 was ended by SIGSEGV" in capsys.readouterr().err


def test_a_stopped_rank_is_killed(make, tmp_path, capsys):
    assert make("if attempt == 0:\n os.kill(os.getpid(), signal.SIGSTOP) if rank else time.sleep(60)").run() == 0
    assert "rank 1 has been stopped" in capsys.readouterr().err
    assert not alive(tmp_path)


def test_sigterm_reaches_all_ranks_and_their_code_is_the_answer(make, tmp_path):
    made = make(
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))\n(job / f'ready-{rank}').touch()\ntime.sleep(60)"
    )
    child = start(made.run)
    while len(list(tmp_path.glob("ready-*"))) < 2:
        time.sleep(0.01)
    child.send(signal.SIGTERM)
    assert child.wait().code == 143
    assert not alive(tmp_path)


def test_ranks_whose_rank_0_has_ended_are_not_waited_for(make, tmp_path, monkeypatch):
    monkeypatch.setattr(launching, "GRACE", 60)
    made = make("(job / f'ready-{rank}').touch()\ntime.sleep(60) if rank else sys.exit(143)")
    begun = time.monotonic()
    assert made.run() == 143
    assert time.monotonic() - begun < 30
    assert not alive(tmp_path)


def test_no_rank_outlives_a_killed_launcher(make, tmp_path):
    child = start(make("time.sleep(60)").run)
    while len(started(tmp_path)) < 2:
        time.sleep(0.01)
    child.send(signal.SIGKILL)
    child.wait()
    deadline = time.monotonic() + 5
    while alive(tmp_path) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not alive(tmp_path)


def test_the_option_is_taken_out_of_the_words():
    assert without_option(["train", "--nproc", "2", "--out", "x"], "--nproc") == ["train", "--out", "x"]
    assert without_option(["train", "--nproc=2", "--out", "x"], "--nproc") == ["train", "--out", "x"]


def test_ranks_of_torchrun_start_no_others(monkeypatch, capsys):
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert main(["train", "gpt-char", "--data", "phrases", "--nproc", "2"]) == 2
    assert "leave one of the two out" in capsys.readouterr().err
    assert os.environ["WORLD_SIZE"] == "2"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("", (1, 768)),
        ("--nproc 2", (2, 384)),
        ("--nproc 2 --train.accumulate 1", (1, 768)),
        ("--nproc 2 --train.batch_tokens 64", (1, 64)),
    ],
)
def test_a_step_is_cut_for_the_processes_unless_its_parts_are_given(words, expected, capsys):
    assert main(["train", "gpt-char", "--print-config", *words.split()]) == 0
    train = yaml.safe_load(capsys.readouterr().out)["train"]
    assert (train["accumulate"], train["batch_tokens"]) == expected
