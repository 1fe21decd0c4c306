"""Jobs over large files: any number of workers, killed at any time, write what one worker writes."""

from __future__ import annotations

import json
import random
import shutil
import signal
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from headway.cli import main
from headway.reliability.process import start_command
from headway.storage.leases import machine
from headway.training.checkpoints import MODEL, Checkpoints
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
    ("kills", "unit"),
    [(4, UNIT), pytest.param(40, 2, marks=pytest.mark.slow)],
    ids=["few kills", "many kills"],
)
def test_three_workers_with_kills_write_what_one_worker_writes(translator, corpus, single, tmp_path, kills, unit):
    out, corpus_now, expected = tmp_path / "job", corpus, single
    if unit != UNIT:
        corpus_now = tmp_path / "long.en"
        corpus_now.write_text((corpus.read_text() + "\n") * 8)
        assert main(job(translator, corpus_now, tmp_path / "one", unit=unit)) == 0
        expected = joined(translator, corpus_now, tmp_path / "one", unit)
    assert kill_workers(job(translator, corpus_now, out, unit=unit), kills, seed=kills) == kills
    assert joined(translator, corpus_now, out, unit) == expected
    assert list((out / "leases").iterdir()) == []
    assert not [path for path in (out / "units").iterdir() if path.name.startswith(".")]


# --- other verbs, other settings, other inputs, damage -------------------------------------------------------------


def test_generate_and_score_of_a_job_are_what_the_command_writes(writer, tmp_path, capsys):
    prompts = tmp_path / "prompts.txt"
    prompts.write_text("to be\nthat is\nor not\n")
    assert main(job(writer, prompts, tmp_path / "g", "--max-tokens", "5", "--seed", "3", unit=2, verb="generate")) == 0
    again = job(writer, prompts, tmp_path / "g2", "--max-tokens", "5", "--seed", "3", unit=2, verb="generate")
    assert main(again) == 0
    first, second = (
        [(folder / "units" / f"{n:06d}" / "out.txt").read_bytes() for n in range(2)]
        for folder in (tmp_path / "g", tmp_path / "g2")
    )
    assert first == second
    capsys.readouterr()
    assert main(job(writer, prompts, tmp_path / "s", unit=2, verb="score")) == 0
    assert main(job(writer, prompts, tmp_path / "s", "--join", str(tmp_path / "s.txt"), unit=2, verb="score")) == 0
    scored = (tmp_path / "s.txt").read_text().splitlines()
    assert len(scored) == 3


@pytest.mark.parametrize(
    ("more", "unit", "message"),
    [
        (["--beam", "3"], UNIT, "--beam: nothing there, 3 now"),
        ([], UNIT + 1, f"--unit: {UNIT} there, {UNIT + 1} now"),
        (["--precision", "bf16"], UNIT, "precision: 'fp32' there, 'bf16' now"),
    ],
)
def test_another_setting_into_the_same_folder_is_refused(translator, corpus, single, home, more, unit, message, capsys):
    capsys.readouterr()
    assert main(job(translator, corpus, home / "single", *more, unit=unit)) == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert message in line
    assert "repeat its settings, or use another --out" in line


def test_workers_on_different_checkpoints_are_refused(translator, corpus, single, home, tmp_path, capsys):
    other = tmp_path / "run"
    shutil.copytree(translator, other)
    weights = Checkpoints(other)
    step = weights.steps()[-1]
    changed = {name: tensor + 1 for name, tensor in load_file(weights.path(step) / MODEL).items()}
    shutil.rmtree(weights.path(step))
    weights.save(step, changed, {"random": torch.get_rng_state()}, {"step": step})
    capsys.readouterr()
    assert main(job(other, corpus, home / "single")) == 2
    assert "weights of the run: " in capsys.readouterr().err


def test_another_input_of_the_same_length_is_refused(translator, corpus, single, home, tmp_path, capsys):
    changed = tmp_path / "corpus.en"
    changed.write_text(corpus.read_text().replace("cat", "cow"))
    assert main(job(translator, changed, home / "single")) == 2
    assert "has a job of another input (as long as" in capsys.readouterr().err
    changed.write_text("shorter\n")
    assert main(job(translator, changed, home / "single")) == 2
    assert "has a job of another input (" in capsys.readouterr().err


def test_a_copy_of_the_input_is_the_same_input(translator, corpus, single, home, tmp_path):
    copy = tmp_path / "copy.en"
    copy.write_bytes(corpus.read_bytes())
    assert main(job(translator, copy, home / "single")) == 0


def test_joining_names_what_is_missing_or_damaged(translator, corpus, single, home, tmp_path, capsys):
    out, target = tmp_path / "job", tmp_path / "joined"
    shutil.copytree(home / "single", out)
    target.write_text("as before")
    result = out / "units" / "000003" / "out.txt"
    result.write_bytes(result.read_bytes()[:-1] + b"x")
    assert main(job(translator, corpus, out, "--join", str(target))) == 3
    assert "is damaged" in capsys.readouterr().err
    shutil.rmtree(out / "units" / "000003")
    assert main(job(translator, corpus, out, "--join", str(target))) == 3
    assert "unit 3 (lines 22 to 28) has no result; 1 of 18 units are missing" in capsys.readouterr().err
    assert target.read_text() == "as before"
    assert main(job(translator, corpus, out)) == 0
    assert main(job(translator, corpus, out, "--join", str(target))) == 0
    assert target.read_bytes() == single


def test_a_line_that_cannot_be_read_is_named_before_anything_is_computed(translator, tmp_path, capsys):
    (tmp_path / "bad.en").write_bytes(b"good\nbad \xff\n")
    assert main(job(translator, tmp_path / "bad.en", tmp_path / "job")) == 3
    assert "line 2, byte 5: invalid UTF-8" in capsys.readouterr().err
    assert not (tmp_path / "job" / "job").exists()


def test_a_folder_with_something_else_in_it_is_refused(translator, corpus, tmp_path, capsys):
    (tmp_path / "notes.txt").write_text("mine")
    assert main(job(translator, corpus, tmp_path)) == 2
    assert "has 'notes.txt' in it and no job" in capsys.readouterr().err
    assert main(job(translator, corpus, tmp_path / "none", "--join", str(tmp_path / "x"))) == 2
    assert "has no job; the same command without --join begins one" in capsys.readouterr().err


def test_shards_of_a_job_are_disjoint_and_complete(translator, corpus, single, tmp_path, capsys):
    out = tmp_path / "job"
    for number in range(3):
        capsys.readouterr()
        assert main(job(translator, corpus, out, "--shard", f"{number}/3", "--json")) == 0
        assert json.loads(capsys.readouterr().out)["own_units"] == 6
    assert joined(translator, corpus, out) == single


def test_the_lease_of_a_worker_killed_after_its_result_is_removed(translator, corpus, single, home, tmp_path):
    out = tmp_path / "job"
    shutil.copytree(home / "single", out)
    left = out / "leases" / "000003"
    left.parent.mkdir(exist_ok=True)
    left.write_text(json.dumps({"machine": machine(), "host": "here", "process": 1, "seconds": 600}))
    assert main(job(translator, corpus, out)) == 0
    assert list((out / "leases").iterdir()) == []
