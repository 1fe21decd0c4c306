"""`--resume` as a user meets it: the data may move and grow new splits, what was trained on must be the same."""

from __future__ import annotations

import gzip
import json
import os
import re
import time
from pathlib import Path

import pytest
import torch

import headway.cli.commands.train  # noqa: F401  # before a fork, not in every child
from headway.cli import main
from tests.cli.test_commands import QUICK, parallel, train_words
from tests.older import make_older

SMALL = ["--model.width", "16", "--model.layers", "1", "--model.heads", "2"]
BERT = ["--model.bert.width", "16", "--model.bert.layers", "1", "--model.bert.heads", "2", "--model.bert.inner", "32"]


@pytest.fixture
def cache(tmp_path):
    return ["--data.cache", str(tmp_path / "cache")]


def text_run(tmp_path: Path, cache: list[str], preset: str = "gpt-char") -> list[str]:
    (tmp_path / "book").mkdir(exist_ok=True)
    for split in ("train", "val"):
        path = tmp_path / "book" / f"{split}.txt"
        path.exists() or path.write_text("to be or not to be.\nthat is the question.\n" * 30)
    sizes = [*BERT, "--data.tokenizer.vocab", "40", "--task.length", "16"] if preset == "bert-base" else SMALL
    out = ["--data", str(tmp_path / "book"), "--out", str(tmp_path / "run")]
    return ["train", preset, *out, *sizes, *QUICK, *cache, "--train.accumulate", "1"]


def another(command: list[str]) -> list[str]:
    return [*command, "--train.steps", "9", "--resume"]


@pytest.mark.parametrize("preset", ["gpt-char", "bert-base"])
@pytest.mark.parametrize("split", ["train", "val"])
def test_a_changed_text_is_refused_and_both_contents_are_named(tmp_path, cache, capsys, preset, split):
    command = text_run(tmp_path, cache, preset)
    assert main(command) == 0
    kept = json.loads((tmp_path / "run" / "data.json").read_text())
    assert set(kept) == {"train", "val"}
    (tmp_path / "book" / f"{split}.txt").write_text("to be or not to be.\nΩ is another question.\n" * 30)
    capsys.readouterr()
    assert main(another(command)) == 2
    error = capsys.readouterr().err.strip()
    found = re.fullmatch(
        rf"headway: --resume with data whose {split} split is (\w+), the run was trained on (\w+)", error
    )
    assert found, error
    assert found[1] != found[2] == kept[split][: len(found[2])]
    assert json.loads((tmp_path / "run" / "data.json").read_text()) == kept
    assert json.loads((tmp_path / "run" / "latest.json").read_text()) == {"step": 6}


@pytest.mark.parametrize("file", ["train.en", "train.fr", "val.en", "val.fr"])
def test_one_changed_line_of_parallel_text_is_refused(tmp_path, cache, capsys, file):
    data = parallel(tmp_path / "data")
    command = train_words(data, tmp_path / "run", cache)
    assert main(command) == 0
    changed = (data / file).read_text().replace(" 3 ", " 4 ", 1)
    (data / file).write_text(changed)
    capsys.readouterr()
    assert main(another(command)) == 2
    assert f"data whose {file[:-3]} split is" in capsys.readouterr().err


def test_the_same_content_in_other_files_and_another_test_split_go_on(tmp_path, cache, capsys):
    data = parallel(tmp_path / "data")
    command = train_words(data, tmp_path / "run", cache)
    assert main(command) == 0
    plain = data / "train.en"
    (data / "train.en.gz").write_bytes(gzip.compress(plain.read_bytes()))
    plain.unlink()
    for side in ("en", "fr"):
        (data / f"test.{side}").write_text("something else\n")
    assert main(another(command)) == 0
    assert "resuming at step 6" in capsys.readouterr().err


@pytest.mark.parametrize(("content", "says"), [(None, "missing"), ("[1", "damaged"), ("[]", "damaged")])
def test_a_run_whose_record_of_its_data_is_damaged_is_refused(tmp_path, cache, capsys, content, says):
    command = text_run(tmp_path, cache)
    assert main(command) == 0
    record = tmp_path / "run" / "data.json"
    record.unlink() if content is None else record.write_text(content)
    capsys.readouterr()
    assert main(another(command)) == 4
    assert f"data.json: {says}" in capsys.readouterr().err


@pytest.mark.parametrize(("content", "says"), [(None, "missing"), ("[1", "unreadable"), ("[]", "unreadable")])
def test_an_older_run_that_kept_no_record_of_its_data_goes_on_with_a_note(tmp_path, cache, capsys, content, says):
    command = text_run(tmp_path, cache)
    assert main(command) == 0
    make_older(tmp_path / "run")
    record = tmp_path / "run" / "data.json"
    kept = record.read_text()
    record.unlink() if content is None else record.write_text(content)
    capsys.readouterr()
    assert main(another(command)) == 0
    assert f"data.json is {says}" in " ".join(capsys.readouterr().err.split())
    assert record.read_text() == kept


def test_a_split_is_read_for_its_digest_once_a_start(tmp_path, cache, monkeypatch):
    from headway.data import text_files as reading

    digested = []
    plain = reading._digest
    monkeypatch.setattr(reading, "_digest", lambda parts: digested.append(1) or plain(parts))
    assert main(train_words(parallel(tmp_path / "data"), tmp_path / "run", cache)) == 0
    assert len(digested) == 3  # train, val, test


@pytest.mark.parametrize("count", [2, 4, 8])
def test_of_trainers_started_at_once_one_trains_and_the_others_refuse_at_once(tmp_path, cache, count):
    command = text_run(tmp_path, cache)
    torch.set_num_threads(1)  # what is forked must not wait for threads that stayed behind
    waiting, start = os.pipe()
    children = []
    for n in range(count):
        child = os.fork()
        if not child:
            code = 1
            try:
                os.close(start)
                os.read(waiting, 1)  # returns when the last writer closes its end
                began = time.monotonic()
                code = main(command)
                (tmp_path / f"seconds-{n}").write_text(str(time.monotonic() - began))
            finally:
                os._exit(code)
        children.append(child)
    os.close(start)
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    os.close(waiting)
    assert sorted(codes) == [0] + [2] * (count - 1)
    assert all(float((tmp_path / f"seconds-{n}").read_text()) < 2 for n in range(count) if codes[n] == 2)
    assert json.loads((tmp_path / "run" / "latest.json").read_text()) == {"step": 6}


def test_a_run_goes_on_with_its_own_config(tmp_path, cache, capsys):
    """TRIALS B, habits: `--resume` without the options it began with took the preset's, and was refused."""
    command = text_run(tmp_path, cache)
    assert main(command) == 0
    run = ["--out", str(tmp_path / "run")]
    for step, words in enumerate(([], ["gpt-char"]), 7):
        assert main(["train", *words, *run, "--resume", "--train.steps", str(step)]) == 0
        assert json.loads((tmp_path / "run" / "latest.json").read_text()) == {"step": step}
    capsys.readouterr()
    assert main(["train", *run, "--resume", "--model.width", "32"]) == 2
    remedy = f"leave the option out to keep that, or pass --out for another folder than {tmp_path / 'run'}"
    assert f"--resume with model.width=32, the run has 16; {remedy}\n" in capsys.readouterr().err
    assert main(["train", "transformer-tiny", *run, "--resume"]) == 2
    assert "preset transformer-tiny (task translation), but" in capsys.readouterr().err


def test_resume_with_data_begins_a_run_in_an_empty_folder(tmp_path, cache, capsys):
    (tmp_path / "book.txt").write_text("to be or not to be, that is the question.\n" * 40)
    words = ["train", "--data", str(tmp_path / "book.txt"), "--out", str(tmp_path / "run"), *QUICK, *cache, *SMALL]
    assert main([*words, "--resume"]) == 0
    assert "starting at step 0" in capsys.readouterr().err
    assert main([*words, "--resume"]) == 0
    assert "resuming at step 6" in capsys.readouterr().err


def test_there_must_be_a_run_to_resume(tmp_path, capsys):
    assert main(["train", "--out", str(tmp_path / "none"), "--resume"]) == 4
    assert "none: no such run" in capsys.readouterr().err
    assert main(["train", "--resume"]) == 2
    assert "no --out: without PRESET the run folder has no default name" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_complete_config_needs_no_preset(tmp_path, cache, capsys):
    """TRIALS B, habits: `train --config runs/x/config.yaml` still wanted PRESET."""
    assert main(text_run(tmp_path, cache)) == 0
    config = ["--config", str(tmp_path / "run" / "config.yaml")]
    assert main(["train", *config, "--out", str(tmp_path / "again"), "--train.steps=3"]) == 0
    assert json.loads((tmp_path / "again" / "latest.json").read_text()) == {"step": 3}
    capsys.readouterr()
    assert main(["train", *config]) == 2
    assert "no --out" in capsys.readouterr().err
    (tmp_path / "part.yaml").write_text("train:\n  steps: 3\n")
    assert main(["train", "--config", str(tmp_path / "part.yaml"), "--out", str(tmp_path / "x")]) == 2
    assert "part.yaml does not say which task: name a PRESET" in capsys.readouterr().err
    assert main(["train", "--config", str(tmp_path / "nofile.yaml"), "--out", str(tmp_path / "x")]) == 2
    assert capsys.readouterr().err == f"headway: {tmp_path / 'nofile.yaml'}: no such file\n"
