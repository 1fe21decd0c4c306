"""`headway train --wandb` and `--mlflow` (TRIALS B, habits): by stand-ins, and by the packages where they are."""

from __future__ import annotations

import importlib.util
import json
import shutil
import sys
import time
from types import SimpleNamespace

import pytest

from headway.cli import main
from headway.cli.commands.train import TRACKERS
from headway.cli.trackers import CLASSES, tracker
from headway.errors import ConfigError, StorageError
from headway.training.log import read_log
from tests.cli.test_commands import parallel, train_words


@pytest.fixture
def command(tmp_path, monkeypatch):
    for name in ("WANDB_MODE", "WANDB_PROJECT", "MLFLOW_TRACKING_URI", "MLFLOW_EXPERIMENT_NAME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    return train_words(parallel(tmp_path / "data"), tmp_path / "run", ["--data.cache", str(tmp_path / "cache")])


def expected(log, tag) -> list[tuple[int, float]]:
    return [(entry["step"], entry[tag]) for entry in log if tag in entry]


def test_every_tracker_is_an_option():
    assert tuple(TRACKERS) == tuple(CLASSES)


# --- stand-ins --------------------------------------------------------------------------------------------------------


class FakeWandb:
    """The part of wandb that is used, which keeps what it is told."""

    class Error(Exception):
        pass

    def __init__(self) -> None:
        self.begun: list[dict] = []
        self.logged: list[tuple[int, dict]] = []
        self.ended: list[int] = []
        self.Settings = self.Table = lambda **settings: settings
        self.refuses = False

    def init(self, **settings):
        if self.refuses:
            raise self.Error("no\napi key")
        self.begun.append(settings)
        return SimpleNamespace(
            id=settings["id"] or "drawn",
            log=lambda figures, step: self.logged.append((step, figures)),
            finish=lambda exit_code: self.ended.append(exit_code),
        )


@pytest.fixture
def wandb(monkeypatch):
    made = FakeWandb()
    monkeypatch.setitem(sys.modules, "wandb", made)
    return made


def test_wandb_gets_the_figures_of_the_log_and_sends_nothing(tmp_path, command, wandb):
    assert main([*command, "--wandb"]) == 0
    (begun,) = wandb.begun
    assert (begun["mode"], begun["project"], begun["name"], begun["id"]) == ("offline", "headway", "run", None)
    assert begun["dir"] == str(tmp_path / "run")
    assert begun["config"]["model.width"] == 16
    log = read_log(tmp_path / "run" / "log.jsonl")
    for tag in ("loss", "learning_rate", "norm", "val_loss"):
        assert [(step, each[tag]) for step, each in wandb.logged if tag in each] == expected(log, tag)
    assert all(each["tokens_per_second"] > 0 for _, each in wandb.logged if "loss" in each)
    tables = [each["samples"] for _, each in wandb.logged if "samples" in each]
    assert "the cat number 0 sleeps → " in str(tables[0]["data"])
    assert wandb.ended == [0]


def test_a_resumed_run_goes_on_under_its_name(tmp_path, command, wandb, monkeypatch):
    assert main([*command, "--wandb"]) == 0
    monkeypatch.setenv("WANDB_MODE", "online")
    monkeypatch.setenv("WANDB_PROJECT", "mine")
    assert main([*command, "--wandb", "--train.steps", "8", "--resume"]) == 0
    second = wandb.begun[1]
    assert (second["id"], second["resume"], second["mode"], second["project"]) == ("drawn", "allow", "online", "mine")
    assert [step for step, each in wandb.logged if "loss" in each] == list(range(1, 9))
    assert main([*command, "--wandb", "--train.steps", "8", "--resume"]) == 0  # nothing to do, nothing to show
    assert len(wandb.begun) == 2


def test_what_wandb_refuses_is_one_line(command, wandb, capsys):
    wandb.refuses = True
    assert main([*command, "--wandb"]) == 2
    assert "--wandb: no api key; WANDB_MODE=offline works without an account\n" in capsys.readouterr().err


def test_a_training_that_fails_is_ended_as_failed(tmp_path, command, wandb):
    wrong = ["--train.learning_rate", "1e38", "--train.schedule", "constant"]
    assert main([*command, *wrong, "--wandb"]) == 6
    assert wandb.ended == [1]


@pytest.mark.parametrize("name", ["wandb", "mlflow"])
def test_without_the_package_one_line_before_training(tmp_path, command, capsys, monkeypatch, name):
    monkeypatch.setitem(sys.modules, name, None)  # as if it were not installed
    assert main([*command, f"--{name}"]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"headway: --{name} needs {name}")
    assert error.count("\n") == 1
    assert not (tmp_path / "run").exists()


def test_a_link_in_its_place_is_refused(tmp_path, wandb):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "wandb").symlink_to(tmp_path)
    with pytest.raises(StorageError, match="symbolic link"):
        tracker("wandb", tmp_path / "run")


class FakeMlflow:
    """The part of mlflow that is used, with its store in memory."""

    class MlflowException(Exception):  # noqa: N818
        pass

    def __init__(self) -> None:
        self.exceptions = SimpleNamespace(MlflowException=self.MlflowException)
        self.entities = SimpleNamespace(Param=lambda *of: of, Metric=lambda *of: of)
        self.addresses: list[str] = []
        self.metrics: list[tuple] = []
        self.params: dict[str, str] = {}
        self.texts: dict[str, str] = {}
        self.status: list[str] = []
        self.runs = 0

    def MlflowClient(self, tracking_uri):  # noqa: N802
        self.addresses.append(tracking_uri)
        return self

    def get_experiment_by_name(self, name):
        return None

    def create_experiment(self, name):
        return name

    def create_run(self, experiment, run_name):
        self.runs += 1
        return SimpleNamespace(info=SimpleNamespace(run_id=f"{experiment}/{run_name}"))

    def update_run(self, run, status):
        self.status.append(status)

    def log_batch(self, run, metrics=(), params=()):
        assert len(metrics) <= 1000
        assert len(params) <= 100
        self.metrics += metrics
        self.params |= dict(params)

    def log_text(self, run, text, path):
        self.texts[path] = text

    def set_terminated(self, run, status):
        self.status.append(status)


def test_mlflow_writes_into_the_run_or_to_a_server_that_is_named(tmp_path, command, monkeypatch):
    made = FakeMlflow()
    monkeypatch.setitem(sys.modules, "mlflow", made)
    assert main([*command, "--mlflow"]) == 0
    assert made.addresses == [(tmp_path / "run" / "mlflow").as_uri()]
    assert made.params["model.width"] == "16"
    log = read_log(tmp_path / "run" / "log.jsonl")
    for tag in ("loss", "val_loss"):
        assert [(step, value) for name, value, _, step in made.metrics if name == tag] == expected(log, tag)
    assert set(made.texts) == {"samples/step-00000003.txt", "samples/step-00000006.txt"}
    assert made.status == ["RUNNING", "FINISHED"]
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    assert main([*command, "--mlflow", "--train.steps", "8", "--resume"]) == 0
    assert made.addresses[1] == "http://127.0.0.1:9"
    assert made.runs == 1


def test_an_address_that_mlflow_refuses_is_one_line(tmp_path, monkeypatch):
    made = FakeMlflow()
    monkeypatch.setitem(sys.modules, "mlflow", made)
    monkeypatch.setattr(made, "get_experiment_by_name", lambda name: (_ for _ in ()).throw(made.MlflowException("no")))
    (tmp_path / "mlflow").mkdir()
    entry = {"step": 1, "loss": 1.0, "learning_rate": 0.1, "norm": 1.0, "tokens": 8, "seconds": 0.1}
    with pytest.raises(ConfigError, match=r"--mlflow: .*: no"), tracker("mlflow", tmp_path) as shown:
        shown.step(entry)


# --- the packages themselves ------------------------------------------------------------------------------------------


@pytest.mark.skipif(importlib.util.find_spec("wandb") is None, reason="wandb is not installed")
def test_wandb_itself_offline(tmp_path, command):
    assert main([*command, "--wandb"]) == 0
    (written,) = (tmp_path / "run" / "wandb").glob("offline-run-*/*.wandb")
    deadline = time.monotonic() + 10
    while written.stat().st_size < 1000 and time.monotonic() < deadline:  # a process of wandb's own writes it
        time.sleep(0.1)
    assert written.stat().st_size > 1000
    assert (tmp_path / "run" / "wandb" / "headway-run-id").read_text() in written.name
    assert main([*command, "--wandb", "--train.steps", "8", "--resume"]) == 0
    names = {path.name for path in (tmp_path / "run" / "wandb").glob("offline-run-*/*.wandb")}
    assert names == {written.name}  # another sitting of the same run


@pytest.mark.skipif(importlib.util.find_spec("mlflow") is None, reason="mlflow is not installed")
def test_mlflow_itself_in_a_folder(tmp_path, command, monkeypatch):
    assert main([*command, "--mlflow"]) == 0
    import mlflow

    client = mlflow.MlflowClient(tracking_uri=(tmp_path / "run" / "mlflow").as_uri())
    experiment = client.get_experiment_by_name("headway")
    (found,) = client.search_runs([experiment.experiment_id])
    assert (found.info.run_name, found.info.status) == ("run", "FINISHED")
    assert found.data.params["model.width"] == "16"
    log = read_log(tmp_path / "run" / "log.jsonl")
    for tag in ("loss", "val_loss"):
        shown = [(each.step, each.value) for each in client.get_metric_history(found.info.run_id, tag)]
        assert shown == expected(log, tag)
    shutil.rmtree(tmp_path / "run" / "checkpoints" / "step-00000006")
    assert main([*command, "--mlflow", "--train.steps", "8", "--resume"]) == 0
    (again,) = client.search_runs([experiment.experiment_id])
    assert again.info.run_id == found.info.run_id
    assert json.loads((tmp_path / "run" / "latest.json").read_text()) == {"step": 8}
