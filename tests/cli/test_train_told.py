"""What `headway train` tells before and while it trains, and how its length is set."""

from __future__ import annotations

import json
import os
import re
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import yaml

from headway.cli import main, progress
from headway.cli.progress import TrainingBar
from headway.errors import ConfigError
from headway.presets import preset
from headway.runs import plan_run, read_config, train_run, with_settings
from headway.training import devices
from headway.training.log import LOG, read_log
from tests.cli.test_commands import TINY, parallel

SMALL = ["--model.width", "16", "--model.layers", "1", "--model.heads", "2", "--train.device", "cpu"]


@pytest.fixture
def book(tmp_path):
    path = tmp_path / "book.txt"
    path.write_text("to be or not to be, that is the question.\n" * 60)
    return path


def words(book: Path, out: Path, *more: str) -> list[str]:
    where = ["--data", str(book), "--out", str(out), "--data.cache", str(out.parent / "cache")]
    return ["train", "gpt-char", *where, *SMALL, *more]


def weights(run: Path) -> bytes:
    return next(iter(sorted((run / "checkpoints").glob("step-*"))[::-1])).joinpath("model.safetensors").read_bytes()


def train_settings(run: Path) -> dict:
    return yaml.safe_load((run / "config.yaml").read_text())["train"]


def test_what_will_be_trained_is_told_before_the_first_step(tmp_path, capsys):
    """TRIALS B friction 1: neither the counts of the data nor the steps nor the model's size were said."""
    data, out = parallel(tmp_path / "data"), tmp_path / "run"
    languages = ["--source", "en", "--target", "fr", "--data.tokenizer", "word", "--task.max_length", "7"]
    with (data / "train.en").open("a") as english, (data / "train.fr").open("a") as french:
        english.write("the cat " * 9 + "\n")
        french.write("le chat " * 9 + "\n")
    quick = ["--train.steps", "6", "--train.device", "cpu", "--data.cache", str(tmp_path / "cache")]
    command = ["train", "transformer-tiny", "--data", str(data), "--out", str(out), *languages, *TINY, *quick]
    assert main(command) == 0
    told, _ = capsys.readouterr().err.split("validation loss", 1)
    facts = {line.split("  ")[0]: line.split("  ", 1)[-1].strip() for line in told.splitlines()}
    assert re.fullmatch(r"train 41 \(\d+ and \d+ tokens\), test 40 \(.*\), val 40 \(.*\)|.*train 41 .*", facts["pairs"])
    assert facts["languages"] == "en to fr"
    assert facts["vocabulary"].endswith("tokens for both sides (word)")
    assert facts["left out"] == "1 training pair longer than task.max_length=7"
    assert re.fullmatch(r"encoder-decoder, [\d,]+ parameters \(.* kB\)", facts["model"])
    assert facts["training"].startswith("6 steps of up to 8,192 tokens = 6 epochs of 1 step; validation every 2 ")
    assert str(out) in facts["writes to"]
    assert "--resume" in facts["to stop"]
    assert facts["memory"].endswith("what a batch needs on top")
    assert facts["device"].startswith("cpu, ")


def test_without_a_terminal_a_line_tells_the_time_left(tmp_path, book, capsys, monkeypatch):
    """TRIALS B friction 2: silence until the first evaluation."""
    monkeypatch.setattr(progress, "SOON", 0.0)
    monkeypatch.setattr(progress, "EVERY", 1e-6)
    assert main(words(book, tmp_path / "run", "--train.steps", "8", "--train.evaluate_every", "8")) == 0
    lines = [line for line in capsys.readouterr().err.splitlines() if re.match(r"step \d/8: loss", line)]
    assert len(lines) == 8
    assert not [line for line in lines[: progress.FIRST_STEPS - 1] if "left" in line], "not measured yet"
    first = lines[progress.FIRST_STEPS - 1]
    assert re.fullmatch(r"step \d/8: loss \d\.\d+, [\d,]+ tokens/s, [\d.]+ s a step, about [\d.]+ s left.*", first)
    assert sum("; memory used " in line for line in lines) == 1


def test_the_time_left_is_by_the_median_of_the_steps(capsys, monkeypatch):
    """The first step and a pause made 47 minutes of a run of six."""
    now = [0.0]
    monkeypatch.setattr(progress.time, "perf_counter", lambda: now[0])
    with TrainingBar("run", 100) as bar:
        bar.planned(100, {"data": "a book"})
        for step, seconds in enumerate((30.0, 1.0, 1.0, 40.0, 1.0, 1.0, 1.0, 1.0, 1.0, 30.0), start=1):
            now[0] += seconds
            bar.step({"step": step, "loss": 1.0, "tokens": 10})
        now[0] += 20.0
        bar.evaluated({"step": 10, "val_loss": 1.0}, [])
        for step in range(11, 22):
            now[0] += 3.0
            bar.step({"step": step, "loss": 1.0, "tokens": 10})
    lines = [line for line in capsys.readouterr().err.splitlines() if "/100" in line]
    assert [line for line in lines if "left" in line]
    assert not [line for line in lines if "left" in line and int(re.search(r"step (\d+)", line)[1]) < 6]
    assert " 1 s a step, about 94 s left; memory used " in next(line for line in lines if "left" in line)
    # A validation of 20 s in 14 steps, each of 1 s by the median.
    assert "step 14/100: loss 1.0000, 1 tokens/s, 2.4 s a step, about 3 min 29 s left" in lines


def test_other_processes_are_told_where_threads_wait_for_each_other(monkeypatch):
    cpu = torch.device("cpu")
    monkeypatch.setattr(devices, "cores", lambda: 2)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    monkeypatch.setattr(os, "getloadavg", lambda: (14.6, 3.0, 1.0))
    assert devices.load_hint(cpu).startswith("14.6 on 2 cores: others use this machine too, and threads wait")
    assert "OMP_NUM_THREADS=1" in devices.load_hint(cpu)
    assert devices.load_hint(torch.device("cuda")) == ""
    monkeypatch.setattr(os, "getloadavg", lambda: (2.0, 14.0, 14.0))
    assert devices.load_hint(cpu) == ""
    monkeypatch.setattr(os, "getloadavg", lambda: (14.6, 3.0, 1.0))
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
    assert devices.load_hint(cpu) == ""


def test_a_log_has_few_lines(tmp_path, book, capsys):
    assert main(words(book, tmp_path / "run", "--train.steps", "12")) == 0
    assert not [line for line in capsys.readouterr().err.splitlines() if re.match(r"step \d+/12", line)]


def test_samples_of_a_log_are_not_wrapped_and_begin_with_text(capsys):
    """TRIALS B friction 2: samples were wrapped at 80 columns, one of characters began with a blank line."""
    with TrainingBar("run", 10, samples=True) as bar:
        bar.evaluated({"step": 5, "val_loss": 1.0}, ["\nto be\nor not", "a word and " * 20])
    lines = capsys.readouterr().err.splitlines()
    assert lines[1:] == ["  to be", "  or not", "  " + "a word and " * 20]


def test_a_validation_is_one_line_of_a_log(capsys):
    with TrainingBar("run", 10) as bar:
        bar.evaluated({"step": 5, "val_loss": 1.0}, ["\nto be\nor not", "second", "third"])
        bar.evaluated({"step": 6, "val_loss": 1.0}, ["a word and " * 20])
        bar.evaluated({"step": 7, "val_loss": 1.0}, [])
    first, second, third = capsys.readouterr().err.splitlines()
    assert first == "step 5: validation loss 1.0000; sample: to be or not"
    assert second.endswith("a word and …")
    assert len(second.partition("sample: ")[2]) == progress.SAMPLE
    assert third == "step 7: validation loss 1.0000"


def test_three_samples_of_each_validation_if_asked_for(tmp_path, book, capsys):
    short = ("--train.steps", "2", "--train.evaluate_every", "2")
    assert main(words(book, tmp_path / "run", *short)) == 0
    assert len(re.findall("^step 2: .*; sample: ", capsys.readouterr().err, re.M)) == 1
    assert main(words(book, tmp_path / "other", *short, "--samples")) == 0
    told = capsys.readouterr().err
    assert "sample:" not in told
    assert re.search("^step 2: validation loss [0-9.]+\n  ", told, re.M)


def test_the_end_of_training_names_the_run_and_what_to_do_next(tmp_path, book, capsys):
    out = tmp_path / "a run"
    assert main(words(book, out, "--train.steps", "1")) == 0
    said = capsys.readouterr()
    assert said.out == f"{out}\n"
    named = f"'{out}'"
    loss = json.loads((out / "best.json").read_text())["loss"]
    assert said.err.splitlines()[-1] == (
        f"headway: trained {out}; step 1 is the best: validation loss {loss:.4f}; next: headway evaluate {named}, "
        f"or headway generate {named} TEXT, or headway look {named} INPUT"
    )
    assert "every 1 step, keeping" in said.err


def test_the_end_of_training_names_the_last_loss_where_checkpoints_are_averaged(tmp_path, book, capsys):
    assert main(words(book, tmp_path / "run", "--train.steps", "2", "--train.average", "2")) == 0
    (entry,) = [entry for entry in read_log(tmp_path / "run" / "log.jsonl") if "val_loss" in entry][-1:]
    told = capsys.readouterr().err
    assert f"trained {tmp_path / 'run'}; step 2: validation loss {entry['val_loss']:.4f}; next: " in told


def test_a_run_that_is_done_says_so_when_it_is_resumed(tmp_path, book, capsys):
    command = words(book, tmp_path / "run", "--train.steps", "2")
    assert main(command) == 0
    assert "are done" not in capsys.readouterr().err
    assert main([*command, "--resume"]) == 0
    assert "all 2 steps are done; a larger --train.steps trains on" in capsys.readouterr().err


def test_a_folder_with_other_files_is_named(tmp_path, book, capsys):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "a.txt").touch()
    assert main(words(book, tmp_path / "full", "--train.steps", "1")) == 0
    assert f"{tmp_path / 'full'} has other files (a.txt); the run's are written beside them" in capsys.readouterr().err
    assert main(words(book, tmp_path / "full", "--train.steps", "2", "--resume")) == 0
    assert "other files" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("given", "follows"),
    [
        (["--task.size", "48"], "model.image is 48 too, as task.size is"),
        (["--model.image", "48"], "task.size is 48 too, as model.image is"),
    ],
)
@pytest.mark.parametrize("name", ["sl-vit-tiny", "captioner-rnn", "captioner-vit", "pose"])
def test_an_image_size_of_the_task_is_also_the_model_s(name, given, follows):
    notes: list[str] = []
    changes = {given[0].removeprefix("--"): given[1]}
    config = with_settings(preset(name).recipe(), changes, note=notes.append)
    assert config.task.size == config.model.image == 48
    config.task.check_model(config.model)
    assert notes == [follows]


def test_an_image_size_that_both_set_stays_an_error(tmp_path, capsys):
    assert main(["train", "sl-vit-tiny", "--data", "shapes", "--task.size", "64", "--model.image", "32",
                 "--out", str(tmp_path / "run"), "--dry-run"]) == 2  # fmt: skip
    assert "task.size=64, model.image=32: expected the same" in capsys.readouterr().err


@pytest.mark.parametrize("changes", [[], ["--model.patches", "patches", "--model.local", "false"]])
def test_a_model_that_cannot_be_exported_is_told_before_it_is_trained(changes, tmp_path, capsys):
    """A newcomer had to train photos twice, since `headway export` refused the first model."""
    words = ["--data", "shapes", "--train.steps", "2", "--out", str(tmp_path / "run"), "--dry-run"]
    assert main(["train", "sl-vit-tiny", *words, *changes]) == 0
    said = " ".join(capsys.readouterr().out.split())
    refusal = "export not to a folder of Hugging Face: ViT has no equivalent of patches="
    assert (refusal in said) == (not changes)
    assert ("train with --model.patches patches --model.local false" in said) == (not changes)


def test_an_error_of_the_data_is_not_preceded_by_an_empty_line(tmp_path, capsys, monkeypatch):
    """TRIALS B friction 2."""
    monkeypatch.chdir(tmp_path)
    assert main(["train", "gpt-char", "--data", "nowhere.txt", "--train.steps", "5"]) == 3
    error = capsys.readouterr().err
    assert error.startswith("headway: 'nowhere.txt'")
    assert error.count("\n") == 1


def test_shortened_steps_scale_the_warm_up_and_a_note_says_so(tmp_path, book, capsys):
    """TRIALS B friction 3."""
    out = tmp_path / "run"
    assert main(words(book, out, "--train.steps", "20")) == 0
    note = "train.schedule.warmup 100 -> 1, train.evaluate_every 250 -> 5, train.save_every 250 -> 5"
    assert f"{note}, as train.steps is 20 of the preset's 2,000\n" in capsys.readouterr().err
    assert train_settings(out)["schedule"]["warmup"] == 1
    rates = [entry["learning_rate"] for entry in read_log(out / LOG) if "loss" in entry]
    assert max(rates) == pytest.approx(1e-3)
    own = tmp_path / "own"
    assert main(words(book, own, "--train.steps", "6", "--train.schedule.warmup", "4")) == 0
    assert train_settings(own)["schedule"]["warmup"] == 4
    assert "warmup" not in capsys.readouterr().err


def test_a_shortened_run_is_resumed_for_more_steps_with_the_schedule_it_has(tmp_path, book, capsys):
    out = tmp_path / "run"
    assert main(words(book, out, "--train.steps", "40")) == 0
    begun = train_settings(out)
    assert begun["schedule"]["warmup"] == 2
    assert main(words(book, out, "--train.steps", "60", "--resume")) == 0
    assert train_settings(out) == {**begun, "steps": 60}
    assert "resuming at step 40" in capsys.readouterr().err


def test_epochs_set_the_steps_by_the_data(tmp_path, book, capsys):
    out = tmp_path / "run"
    assert main(words(book, out, "--epochs", "3", "--train.batch_tokens", "256")) == 0
    tokens = 60 * 42 * 9 // 10
    epoch = (tokens - 1) // 64 // 4
    assert train_settings(out)["steps"] == pytest.approx(3 * epoch, abs=3)
    told = capsys.readouterr().err
    assert "= 3 epochs of" in told
    assert "fitted" in told
    again = tmp_path / "again"
    assert main(words(book, again, "--config", str(out / "config.yaml"))) == 0
    assert weights(again) == weights(out)
    capsys.readouterr()
    assert main(words(book, out, "--epochs", "4", "--train.batch_tokens", "256", "--resume")) == 0
    assert train_settings(out)["steps"] == pytest.approx(4 * epoch, abs=4)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--epochs", "2", "--train.steps", "9"], "--epochs and --train.steps both decide the steps"),
        (["--epochs", "2", "--budget", "9m"], "--epochs and --budget both decide the steps"),
        (["--budget", "9m", "--train.steps", "9"], "--budget and --train.steps both decide the steps"),
        (["--budget", "soon"], "'soon' is not a time; allowed: a number with s, m, h or d"),
    ],
)
def test_only_one_option_decides_the_steps(tmp_path, book, capsys, options, message):
    assert main(words(book, tmp_path / "run", *options)) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def tree(folder: Path) -> dict[str, int]:
    return {str(path): path.stat().st_mtime_ns for path in sorted(folder.rglob("*"))}


def test_a_dry_run_reads_the_data_and_writes_nothing(tmp_path, book, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    before = tree(tmp_path)
    assert main(words(book, tmp_path / "run", "--train.steps", "50", "--dry-run")) == 0
    assert tree(tmp_path) == before
    told = capsys.readouterr()
    for expected in ("text ", "vocabulary  16 tokens (characters)", "model ", "training ", "writes to ", "time "):
        assert expected in told.out
    assert "of the preset's 2,000" in told.err
    assert main(words(book, tmp_path / "run", "--epochs", "2", "--dry-run", "--print-config")) == 0
    assert yaml.safe_load(capsys.readouterr().out)["model"]["vocab"] == 16
    assert main(words(book, tmp_path / "run", "--train.steps", "2")) == 0
    capsys.readouterr()
    before = tree(tmp_path)
    assert main(words(book, tmp_path / "run", "--dry-run")) == 0
    assert "holds a run already" in capsys.readouterr().err
    assert tree(tmp_path) == before


def test_the_same_in_python(tmp_path, book):
    changes = {"data.spec": str(book), "data.cache": str(tmp_path / "cache"), "train.device": "cpu", "train.steps": 8}
    changes |= {"model.width": 16, "model.layers": 1, "model.heads": 2}
    notes: list[str] = []
    config = with_settings(preset("gpt-char").recipe(), changes, note=notes.append)
    assert config.train.schedule.warmup == 1
    assert notes[0].startswith("train.schedule.warmup 100 -> 1, ")
    plan = plan_run(config, tmp_path / "run", epochs=2)
    assert not (tmp_path / "run").exists()
    assert plan.config.model.vocab == 16
    trained = train_run(config, tmp_path / "run", epochs=2)
    assert trained.config.steps == plan.config.train.steps == read_config(tmp_path / "run").train.steps
    with pytest.raises(ConfigError, match="epochs and a budget both decide"):
        plan_run(config, tmp_path / "other", epochs=1, budget=9.0)


def test_telling_changes_no_weight(tmp_path, book, capsys):
    """The block and the estimate only look: in Python, without any of it, the weights are the same to the bit."""
    assert main(words(book, tmp_path / "run", "--train.steps", "8", "--model.dropout", "0.1")) == 0
    config = read_config(tmp_path / "run")
    train_run(replace(config), tmp_path / "silent")
    assert weights(tmp_path / "silent") == weights(tmp_path / "run")
    assert json.loads((tmp_path / "silent" / "latest.json").read_text()) == {"step": 8}
    assert os.path.lexists(tmp_path / "run" / "curves.png")


def test_a_folder_with_a_run_does_not_refuse_a_dry_run(tmp_path, book, capsys):
    out = tmp_path / "run"
    assert main(words(book, out, "--train.steps", "1")) == 0
    capsys.readouterr()
    assert main(words(book, out, "--train.steps", "7", "--dry-run")) == 0
    told = capsys.readouterr()
    assert f"{out} holds a run already (step 1); pass --resume" in told.err
    assert "7 steps of up to" in told.out
    assert "are done" not in told.out
    assert main(words(book, out, "--train.steps", "7")) == 2
