"""Jobs over large files: any number of workers, killed at any time, write what one worker writes."""

from __future__ import annotations

import random
import signal
import time
from pathlib import Path

import pytest

from headway.cli import main
from headway.reliability.process import start_command
from tests.cli.test_commands import parallel, train_words

LINES = 120
UNIT = 7


@pytest.fixture(scope="module")
def home(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("jobs")


@pytest.fixture(scope="module")
def translator(home) -> Path:
    out, data = home / "run", parallel(home / "data")
    assert main([*train_words(data, out, ["--data.cache", str(home / "cache")]), "--task.max_length", "12"]) == 0
    return out


@pytest.fixture(scope="module")
def writer(home) -> Path:
    book, out = home / "book.txt", home / "writer"
    book.write_text("to be or not to be, that is the question.\n" * 40)
    sizes = ["--model.width", "16", "--model.layers", "1", "--model.heads", "2", "--train.steps", "2"]
    words = ["train", "gpt-char", "--data", str(book), "--out", str(out), *sizes, "--train.device", "cpu"]
    assert main([*words, "--data.cache", str(home / "cache")]) == 0
    return out


@pytest.fixture(scope="module")
def corpus(home) -> Path:
    path, draw = home / "corpus.en", random.Random(0)
    words = ["the", "cat", "number", "sleeps", "on", "1", "2", "3"]
    lines = [" ".join(draw.choices(words, k=draw.randrange(20))) for _ in range(LINES)]
    path.write_text("\n".join(lines))  # the last line has no end
    return path


def job(run: Path, corpus: Path, out: Path, *more: str, unit: int = UNIT, verb: str = "translate") -> list[str]:
    return [verb, str(run), "--device", "cpu", "--input", str(corpus), "--out", str(out), "--unit", str(unit), *more]


@pytest.fixture(scope="module")
def single(home, translator, corpus) -> bytes:
    """What one worker writes."""
    out = home / "single"
    assert main(job(translator, corpus, out)) == 0
    assert main(job(translator, corpus, out, "--join", str(home / "single.fr"))) == 0
    return (home / "single.fr").read_bytes()


def joined(run: Path, corpus: Path, out: Path, unit: int = UNIT) -> bytes:
    target = out.with_suffix(".joined")
    assert main(job(run, corpus, out, "--join", str(target), unit=unit)) == 0
    return target.read_bytes()


def test_one_unit_is_what_the_command_writes_without_a_job(translator, corpus, tmp_path, capsys, monkeypatch):
    lines = corpus.read_text().split("\n")
    words = ["translate", str(translator), "--device", "cpu", "--n-best", "2"]
    assert main([*words, *lines]) == 0
    expected = capsys.readouterr().out
    assert main(job(translator, corpus, tmp_path / "job", "--n-best", "2", unit=LINES)) == 0
    target = tmp_path / "joined"
    assert main(job(translator, corpus, tmp_path / "job", "--n-best", "2", "--join", str(target), unit=LINES)) == 0
    assert target.read_text() == expected
    assert len(lines) == LINES


def kill_workers(words: list[str], kills: int, seed: int, workers: int = 3) -> int:
    """Keep workers at a job, kill some of them, and wait until the others have ended -> how many were killed."""
    draw, running, killed = random.Random(seed), [], 0
    while killed < kills:
        while len(running) < workers:
            running.append(start_command(words, cpu_seconds=100))
        time.sleep(draw.uniform(0.05, 0.5))
        victim = running.pop(draw.randrange(len(running)))
        victim.send(signal.SIGKILL)
        killed += victim.wait().signal == signal.SIGKILL
        for each in list(running):
            if (ended := each.poll()) is not None:
                assert ended.code == 0, ended.err
                running.remove(each)
    running += [start_command(words, cpu_seconds=100)] * (not running)
    for each in running:
        ended = each.wait(90)
        assert ended.code == 0, ended.err
    return killed


@pytest.mark.parametrize(
    ("kills", "unit"), [(4, UNIT), pytest.param(40, 2, marks=pytest.mark.slow)], ids=["few kills", "many kills"]
)
def test_three_workers_with_kills_write_what_one_worker_writes(translator, corpus, single, tmp_path, kills, unit):
    out, corpus_now, expected = tmp_path / "job", corpus, single
    if unit != UNIT:
        corpus_now = tmp_path / "long.en"
        corpus_now.write_text((corpus.read_text() + "\n") * 40)
        assert main(job(translator, corpus_now, tmp_path / "one", unit=unit)) == 0
        expected = joined(translator, corpus_now, tmp_path / "one", unit)
    assert kill_workers(job(translator, corpus_now, out, unit=unit), kills, seed=kills) == kills
    assert joined(translator, corpus_now, out, unit) == expected
    assert list((out / "leases").iterdir()) == []
    assert not [path for path in (out / "units").iterdir() if path.name.startswith(".")]
