"""The dashboard's data: rows, settings and curves, read again only where a run has changed."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path

import pytest

from headway.cli import main
from headway.errors import ConfigError
from headway.reliability.runs import TINY
from headway.runs import board as boards
from headway.runs.board import SPEED, Board, thinned
from headway.runs.train import train_run
from headway.training.log import LOG, LogFollower, log_line, read_log, run_of_log
from tests.pages import payload_of

STEPS = {"train.steps": 4, "train.evaluate_every": 2, "train.save_every": 2}


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    """Two runs of a language model, which differ in a setting."""
    folder = tmp_path_factory.mktemp("board")
    for seed in (0, 1):
        config = TINY["language"].config(folder / "cache", {**STEPS, "train.seed": seed})
        train_run(config, folder / f"runs/seed-{seed}")
    return folder / "runs"


def test_every_run_has_its_row_its_settings_and_its_curves(trained):
    first, second = Board([trained]).to_json()["runs"]
    log = read_log(trained / "seed-0" / LOG)
    assert [first["name"], second["name"]] == ["seed-0", "seed-1"]
    assert first["state"] == "finished"
    assert first["curves"]["loss"] == [(each["step"], each["loss"]) for each in log if "loss" in each]
    assert first["curves"]["val_loss"] == [(each["step"], each["val_loss"]) for each in log if "val_loss" in each]
    assert {"learning_rate", "norm", SPEED} <= first["curves"].keys()
    differing = {key for key in first["settings"] if first["settings"][key] != second["settings"][key]}
    assert differing == {"train.seed"}
    assert first["checkpoints"] == [2, 4]
    assert first["looks"]


def test_what_is_known_is_not_sent_again(trained, monkeypatch):
    board = Board([trained])
    versions = {each["run"]: each["version"] for each in board.to_json()["runs"]}
    read = []
    monkeypatch.setattr(boards, "run_row", lambda folder: read.append(folder))
    again = board.to_json(versions)["runs"]
    assert [each.keys() for each in again] == [{"run", "version", "age"}] * 2
    assert not read


def test_a_log_that_grows_or_is_cut_is_followed(trained, tmp_path):
    run = shutil.copytree(trained / "seed-0", tmp_path / "run")
    path, follower = run / LOG, LogFollower(run / LOG)
    whole = read_log(path)
    assert follower.entries() == whole
    assert follower.entries() == whole
    with path.open("a") as file:
        line = log_line({"step": 5, "loss": 1.5}, run_of_log(path)) + "\n"
        file.write(line[:20])
        file.flush()
        assert follower.entries() == whole  # the line is not finished yet
        file.write(line[20:])
    assert follower.entries() == [*whole, {"step": 5, "loss": 1.5}]
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:2]) + line * 6)  # cut by a resumed training, and longer than before
    assert follower.entries() == read_log(path)
    path.unlink()
    assert follower.entries() == []


def test_a_changed_run_is_read_again_and_a_removed_one_is_gone(trained, tmp_path):
    folder = shutil.copytree(trained, tmp_path / "runs")
    board = Board([folder])
    versions = {each["run"]: each["version"] for each in board.to_json()["runs"]}
    with (folder / "seed-0" / LOG).open("a") as file:
        file.write(log_line({"step": 5, "loss": 1.5}, run_of_log(folder / "seed-0" / LOG)) + "\n")
    shutil.rmtree(folder / "seed-1")
    (only,) = board.to_json(versions)["runs"]
    assert only["curves"]["loss"][-1] == (5, 1.5)
    shutil.rmtree(folder)
    assert board.to_json()["runs"] == []
    with pytest.raises(ConfigError, match="no such folder"):
        Board([folder])


def test_a_damaged_run_is_shown_as_one(trained, tmp_path):
    folder = shutil.copytree(trained, tmp_path / "runs")
    (folder / "seed-0/config.yaml").write_text("nonsense: [")
    damaged, sound = Board([folder]).to_json()["runs"]
    assert (damaged["state"], sound["state"]) == ("damaged", "finished")
    assert damaged["problem"]
    assert damaged["curves"] == {}


def test_a_long_curve_is_thinned_to_means():
    curve = [(n, float(n)) for n in range(1, 1001)]
    found = thinned(curve, 100)
    assert len(found) == 100
    assert found[0] == (10, 5.5)
    assert found[-1] == (1000, 995.5)
    assert math.isclose(sum(value for _, value in found) / 100, 500.5)
    assert thinned(curve[:50], 100) == curve[:50]


def test_the_dashboard_is_written_as_a_file(trained, tmp_path, capsys):
    path = tmp_path / "runs.html"
    assert main(["runs", str(trained), "--page", str(path)]) == 0
    text = path.read_text(encoding="utf-8")
    assert "default-src 'none'" in text
    runs = payload_of(path)["dashboard"]["runs"]
    assert [each["name"] for each in runs] == ["seed-0", "seed-1"]
    assert json.dumps(runs)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--page", "x.html", "--live"], "leave one of them out"),
        (["--live", "--sort", "age"], "--sort is an option of the list"),
        (["--live", "--json"], "--json is an option of the list"),
        (["--port", "80"], "belong to --live"),
        (["--page", "x.png"], "allowed: a name that ends in"),
        (["compare", "a", "b", "--live"], "--live is an option of runs, not of runs compare"),
    ],
)
def test_options_that_do_not_fit_are_named(words, message, trained, capsys, monkeypatch):
    monkeypatch.chdir(trained.parent)
    assert main(["runs", *words]) != 0
    assert message in capsys.readouterr().err
