"""`headway train --tensorboard`, read back as TensorBoard reads it."""

from __future__ import annotations

import shutil
import sys
import threading

import pytest

from headway.cli import main
from headway.cli.trackers.tensorboard import Tensorboard
from headway.errors import StorageError
from headway.extras import install_command
from headway.training.log import read_log
from tests.cli.test_commands import parallel, train_words
from tests.storage.disk import PAGE, mounted


@pytest.fixture
def command(tmp_path):
    cache = ["--data.cache", str(tmp_path / "cache"), "--tensorboard"]
    return train_words(parallel(tmp_path / "data"), tmp_path / "run", cache)


def events(folder):
    accumulators = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    found = accumulators.EventAccumulator(str(folder), size_guidance={"scalars": 0, "tensors": 0})
    return found.Reload()


def scalars(folder) -> dict[str, list[tuple[int, float]]]:
    found = events(folder)
    return {tag: [(event.step, event.value) for event in found.Scalars(tag)] for tag in found.Tags()["scalars"]}


def test_the_events_are_those_of_the_log(tmp_path, command):
    assert main(command) == 0
    shown, log = scalars(tmp_path / "run" / "tensorboard"), read_log(tmp_path / "run" / "log.jsonl")
    assert set(shown) == {"loss", "learning_rate", "norm", "tokens_per_second", "val_loss"}
    for tag in ("loss", "learning_rate", "norm", "val_loss"):
        expected = [(entry["step"], pytest.approx(entry[tag], rel=1e-6)) for entry in log if tag in entry]
        assert shown[tag] == expected
    assert all(value > 0 for _, value in shown["tokens_per_second"])
    found = events(tmp_path / "run" / "tensorboard")
    said = [event.tensor_proto.string_val[0].decode() for event in found.Tensors("samples/text_summary")]
    assert len(said) == 2
    assert "the cat number 0 sleeps → " in said[0]


def test_a_resumed_run_shows_every_step_once(tmp_path, command):
    assert main([*command, "--train.save_every", "4"]) == 0
    whole = scalars(tmp_path / "run" / "tensorboard")["loss"]
    shutil.rmtree(tmp_path / "run" / "checkpoints" / "step-00000006")  # the steps since the one before are done again
    assert main([*command, "--train.save_every", "4", "--train.steps", "8", "--resume"]) == 0
    folder = tmp_path / "run" / "tensorboard"
    assert len(list(folder.iterdir())) == 2
    again = scalars(folder)
    assert [step for step, _ in again["loss"]] == list(range(1, 9))
    assert again["loss"][:6] == whole
    assert [step for step, _ in again["val_loss"]] == [3, 6, 8]
    assert main([*command, "--train.steps", "8", "--resume"]) == 0  # nothing to do, nothing to show
    assert len(list(folder.iterdir())) == 2


def test_without_the_package_one_line_before_training(tmp_path, command, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)  # as if it were not installed
    assert main(command) == 2
    error = capsys.readouterr().err
    assert error.startswith("headway: --tensorboard needs tensorboard")
    assert error.endswith(": " + install_command(["tensorboard"], "tensorboard") + "\n")
    assert not (tmp_path / "run").exists()


def test_without_the_flag_nothing_is_written(tmp_path, command):
    assert main([word for word in command if word != "--tensorboard"]) == 0
    assert not (tmp_path / "run" / "tensorboard").exists()


ENTRY = {"step": 1, "loss": 1.0, "learning_rate": 0.1, "norm": 1.0, "tokens": 8, "seconds": 0.1}


def test_a_disk_that_takes_no_event_is_a_storage_error(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StorageError, match="file"), Tensorboard(tmp_path / "file") as events:
        events.step(ENTRY)


def test_a_disk_that_fills_up_with_events_is_a_storage_error_without_a_traceback(tmp_path, capfd):
    def fill(folder):
        with Tensorboard(folder) as events:
            for step in range(1, 10_000):
                events.step(ENTRY | {"step": step})
                events.evaluated({"step": step, "val_loss": 1.0}, ["a sample"])

    before = threading.excepthook
    with mounted(tmp_path / "disk") as disk:
        disk.leave(8 * PAGE)
        with pytest.raises(StorageError, match="no space left"):
            fill(disk.place / "events")
    assert capfd.readouterr().err == ""
    assert threading.excepthook is before
