"""What is read from a run is what was written, or it is told: checkpoints, configs, tokenizers, logs."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

import headway
from headway.cli import main
from headway.errors import AdviceWarning, NonFiniteError, NoRunError
from headway.models import GptConfig
from headway.reliability.disks import Crash, DyingDisk, crash, used
from headway.runs.folder import CONFIG, read_config, read_tokenizers
from headway.runs.seal import seal_run
from headway.storage import disk as storage
from headway.storage.disk import Disk
from headway.storage.manifest import BLOCK, MANIFEST, StreamFingerprint, check_file, fingerprint, problems
from headway.storage.run_manifest import commit_run_files, read_run_manifest
from headway.training import checkpoints as reading
from headway.training.best import BestCheckpoint
from headway.training.checkpoints import Checkpoints
from headway.training.log import LOG, log_line
from tests.interop.runs import write_run
from tests.older import make_older

GPT = GptConfig(vocab=30, context=24, width=16, layers=2, heads=4)
TRAIN = [
    "train", "gpt-char", "--data", "deck-sentences", "--model.width", "16", "--model.heads", "2", "--model.layers", "1",
    "--model.context", "8", "--task.context", "8", "--train.batch_tokens", "32", "--train.device", "cpu",
    "--train.evaluate_every", "2", "--train.save_every", "2", "--train.keep", "3", "--train.steps", "6", "--out",
]  # fmt: skip


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


@pytest.fixture(scope="module")
def gpt(tmp_path_factory) -> Path:
    """A run with three checkpoints, of which the second is the best."""
    run = write_run(tmp_path_factory.mktemp("gpt") / "run", GPT)
    checkpoints = Checkpoints(run)
    weights, _ = checkpoints.weights()
    shutil.rmtree(checkpoints.path(1))
    for step in (1, 2, 3):
        moved = {name: tensor + 0.01 * step for name, tensor in weights.items()}
        checkpoints.save(step, moved, {}, {"step": step, "best_step": min(step, 2), "best": 0.5})
    checkpoints.mark_best(BestCheckpoint(2, 0.5))
    (run / LOG).write_text(log_line({"step": 3, "loss": 1.0}, read_run_manifest(run).run) + "\n")
    return run


@pytest.fixture
def run(gpt, tmp_path) -> Path:
    return Path(shutil.copytree(gpt, tmp_path / "run"))


def flip(path: Path, chance: random.Random) -> None:
    data = bytearray(path.read_bytes())
    data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    path.write_bytes(data)


def snapshot(folder: Path) -> dict[str, tuple[bytes, int]]:
    return {
        str(path.relative_to(folder)): (path.read_bytes(), path.stat().st_mtime_ns)
        for path in folder.rglob("*")
        if path.is_file()
    }


def answer(run: Path, capsys, *more: str) -> tuple[int, str, str]:
    command = ["generate", str(run), "--prompt", "a man", "--max-tokens", "5", "--device", "cpu"]
    with warnings.catch_warnings():  # else the suite's settings make an error of every note
        warnings.simplefilter("always", AdviceWarning)
        code = main([*command, *more])
    said = capsys.readouterr()
    return code, said.out, said.err


# --- checkpoints ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["model.safetensors", "trainer.json", "MANIFEST.json"])
def test_d1_a_damaged_best_checkpoint_is_noticed_told_and_not_used(run, capsys, name):
    clean = answer(run, capsys)
    assert headway.load(run, device="cpu").steps == [2]
    for trial in range(10):
        damaged = Path(shutil.copytree(run, run.with_name(f"{name}-{trial}")))
        flip(Checkpoints(damaged).path(2) / name, random.Random(trial))
        before = snapshot(damaged)
        code, out, err = answer(damaged, capsys)
        if name == "trainer.json":  # that of the newest says which is the best; this one is not read
            assert (code, out, err) == clean
        else:
            assert code == 0
            assert "step-00000002 is damaged" in err
            assert out != clean[1]
        assert snapshot(damaged) == before


def test_the_best_is_what_the_newest_intact_checkpoint_says(run, capsys):
    (run / "best.json").write_text('{"step": 1, "loss": 0.01}\n')
    with pytest.warns(AdviceWarning, match=r"best\.json does not name step 2"):
        assert headway.load(run, device="cpu").steps == [2]
    flip(Checkpoints(run).path(3) / "trainer.json", random.Random(0))
    (run / "best.json").write_text('{"step": 2, "loss": 0.5}\n')
    with pytest.warns(AdviceWarning, match="step-00000003 is damaged"):
        assert headway.load(run, device="cpu").steps == [2]


def test_an_average_leaves_a_damaged_checkpoint_out_and_says_so(run):
    flip(Checkpoints(run).path(2) / "model.safetensors", random.Random(0))
    with pytest.warns(AdviceWarning, match="step-00000002 is damaged"):
        assert headway.load(run, device="cpu", average=2).steps == [1, 3]


def test_d7_a_checkpoint_of_another_step_or_another_run_is_refused(run, tmp_path):
    checkpoints = Checkpoints(run)
    shutil.copytree(checkpoints.path(1), checkpoints.path(9))
    with pytest.warns(AdviceWarning, match=r"step-00000009 is damaged \(it is the checkpoint of step 1\)"):
        assert headway.load(run, device="cpu", average=1).steps == [3]
    shutil.rmtree(checkpoints.path(9))
    other = write_run(tmp_path / "other", GPT, spec="elsewhere")
    shutil.rmtree(checkpoints.path(1))
    shutil.copytree(Checkpoints(other).path(1), checkpoints.path(1))
    with pytest.warns(AdviceWarning, match=r"step-00000001 is damaged \(it belongs to another run\)"):
        assert headway.load(run, device="cpu", average=3).steps == [2, 3]


def test_d2_weights_that_are_not_finite_are_refused_after_loading(run, capsys):
    weights, _ = Checkpoints(run).weights()
    name = next(iter(weights))
    weights[name] = weights[name] / 0.0
    Checkpoints(run).save(9, weights, {}, {"step": 9, "best_step": 9, "best": 0.1})
    code, out, err = answer(run, capsys)
    assert (code, out) == (NonFiniteError.exit_code, "")
    assert f"{name} holds NaN or infinite values" in err


def test_d4_a_reader_changes_nothing_and_works_on_a_read_only_folder(run, capsys, monkeypatch):
    flip(Checkpoints(run).path(3) / "model.safetensors", random.Random(1))
    before = snapshot(run)

    class ReadOnly(Disk):
        def write(self, path, writer):
            raise OSError(30, "Read-only file system")

        make = remove = rename = sync = write

    monkeypatch.setattr(storage, "DISK", ReadOnly())
    for command in (["generate", "--max-tokens", "3", "--prompt", "a man"], ["info"], ["score"], ["look", "a man"]):
        name, *rest = command
        if name == "score":
            rest = ["a man is sleeping"]
        if name == "look":
            monkeypatch.setattr(storage, "DISK", Disk())
            rest += ["-o", str(run.with_name("page.html"))]
        assert main([name, str(run), *rest]) == 0, capsys.readouterr().err
    assert snapshot(run) == before


def test_d4_a_checkpoint_that_is_removed_while_it_is_read_is_not_called_damaged(run, monkeypatch):
    plain, removed = reading.read_tensors, []

    def removing(path, expected=None):
        if not removed:
            removed.append(path)
            shutil.rmtree(path.parent)  # as training does, with a rename first
        return plain(path, expected)

    monkeypatch.setattr(reading, "read_tensors", removing)
    assert headway.load(run, device="cpu").steps == [3]  # without a warning, which would be an error here
    assert removed


def test_the_int8_copy_of_what_stands_in_for_a_damaged_checkpoint_is_not_kept(run, capsys):
    flip(Checkpoints(run).path(2) / "model.safetensors", random.Random(0))
    for _ in range(2):
        assert "step-00000002 is damaged" in answer(run, capsys, "--precision", "int8")[2]
    assert not (run / "int8").exists()


def test_a_run_with_no_intact_checkpoint_is_refused(run, capsys):
    for step in (1, 2, 3):
        flip(Checkpoints(run).path(step) / "model.safetensors", random.Random(step))
    assert answer(run, capsys)[:2] == (4, "")


# --- the run's files --------------------------------------------------------------------------------------------------


def test_d7_every_flip_of_config_tokenizer_and_manifest_is_noticed(run, tmp_path):
    chance = random.Random(0)
    for name in (CONFIG, "tokenizer.json", MANIFEST):
        clean = (run / name).read_bytes()
        for _ in range(100):
            flip(run / name, chance)
            with pytest.raises(NoRunError, match=rf"{name}.*headway seal"):
                read_tokenizers(run, read_config(run).data.marks)
            (run / name).write_bytes(clean)
    shutil.copy(run / "tokenizer.json", run / "tokenizer-target.json")
    with pytest.raises(NoRunError, match="not a file of this run"):
        read_tokenizers(run, None)


def test_a_missing_manifest_is_an_error_unless_the_run_is_older(run, capsys):
    clean = answer(run, capsys)
    (run / MANIFEST).unlink()
    code, out, err = answer(run, capsys)
    assert (code, out) == (4, "")
    assert f"headway seal {run}" in err
    assert main(["seal", str(run)]) == 0
    capsys.readouterr()
    assert answer(run, capsys) == clean
    make_older(run)
    code, out, err = answer(run, capsys)
    assert (code, out) == clean[:2]
    assert "has no MANIFEST.json" in err


def test_seal_accepts_an_edited_config(run, capsys):
    config = run / CONFIG
    config.write_text(config.read_text().replace("spec: nowhere", "spec: elsewhere"))
    assert answer(run, capsys)[0] == 4
    assert seal_run(run) == [CONFIG]
    assert read_config(run).data.spec == "elsewhere"
    assert answer(run, capsys)[0] == 0
    config.write_text("task: [")
    with pytest.raises(NoRunError, match="config"):
        seal_run(run)


@pytest.mark.parametrize("power_loss", [False, True])
def test_replacing_the_files_of_a_run_leaves_it_readable_wherever_it_stops(run, power_loss):
    known, old = read_run_manifest(run), (run / CONFIG).read_bytes()
    new = {CONFIG: old.replace(b"nowhere", b"elsewhere"), "tokenizer.json": (run / "tokenizer.json").read_bytes()}
    for point in range(100):
        folder = Path(shutil.copytree(run, run.with_name(f"run-{point}")))
        disk = DyingDisk(point, random.Random(point), power_loss=power_loss, end=crash)
        with used(disk), contextlib.suppress(Crash):
            commit_run_files(folder, new, run=known.run, adopted=known.adopted)
        finished = disk.points <= point
        assert read_config(folder).data.spec in ("nowhere", "elsewhere")
        commit_run_files(folder, new, run=known.run, adopted=known.adopted)
        assert read_config(folder).data.spec == "elsewhere"
        assert not read_run_manifest(folder).replacing
        if finished:
            break
    assert 8 < point < 99


# --- resuming ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("trained")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(folder))
        assert main([*TRAIN, str(folder / "run")]) == 0
    return folder / "run"


def more(run: Path, steps: int = 8) -> list[str]:
    return [*TRAIN, str(run), "--train.steps", str(steps), "--resume"]


def test_d7_a_refused_resume_writes_nothing(trained, tmp_path, capsys):
    run = Path(shutil.copytree(trained, tmp_path / "run"))
    (run / "tokenizer.json").write_text((run / "tokenizer.json").read_text().replace('"I":', '"#":'))
    (run / ".lock").unlink()
    before = snapshot(run)
    assert main(more(run)) == 4
    assert "tokenizer.json: damaged or changed" in capsys.readouterr().err
    (run / ".lock").unlink()
    assert snapshot(run) == before
    seal_run(run)
    (run / ".lock").unlink()
    before = snapshot(run)
    assert main(more(run)) != 0
    (run / ".lock").unlink()
    after = snapshot(run)
    assert {name: after[name] for name in before} == before


def test_d7_the_checkpoints_of_another_seed_are_not_resumed(trained, tmp_path, capsys):
    run, other = tmp_path / "run", tmp_path / "other"
    assert main([*TRAIN, str(other), "--train.seed", "7"]) == 0
    shutil.copytree(trained, run)
    shutil.rmtree(run / "checkpoints")
    shutil.copytree(other / "checkpoints", run / "checkpoints")
    assert main(more(run)) == 4
    assert "no checkpoint is intact" in capsys.readouterr().err


@pytest.mark.parametrize(
    "line", [b"[1]", b"3", b'{"a":1}', b'{"step":"x"}', b"\xff", b"[" * 100_000, b'{"step": -1}', b'{"step": 1e400}']
)
def test_d8_a_damaged_line_of_the_log_is_told_and_kept(trained, tmp_path, capsys, line):
    run = Path(shutil.copytree(trained, tmp_path / "run"))
    log = run / "log.jsonl"
    lines = log.read_bytes().splitlines()
    damaged = b"\n".join([*lines[:2], line, *lines[2:]]) + b"\n"
    log.write_bytes(damaged)
    assert main(more(run)) == 0
    assert "has 1 damaged line" in " ".join(capsys.readouterr().err.split())
    assert (run / "log-damaged.jsonl").read_bytes() == damaged
    assert log.read_bytes().splitlines()[: len(lines)] == lines


def test_a_log_that_was_cut_is_told(trained, tmp_path, capsys):
    run = Path(shutil.copytree(trained, tmp_path / "run"))
    (run / "log.jsonl").write_bytes(b"".join((run / "log.jsonl").read_bytes().splitlines(keepends=True)[:1]))
    assert main(more(run)) == 0
    assert "lacks the entries of 5 of the 6 steps" in " ".join(capsys.readouterr().err.split())


def test_d8_odd_things_in_a_run_folder_are_one_line_or_ignored(trained, tmp_path, capsys):
    run = Path(shutil.copytree(trained, tmp_path / "run"))
    (run / "checkpoints" / "step-²").mkdir()
    (run / "best.json").write_text('{"step": 1e400}')
    assert main(more(run)) == 0
    (run / "log.jsonl").unlink()
    (run / "log.jsonl").mkdir()
    assert main(more(run, 10)) == 5
    assert "log.jsonl: could not be written (it is a folder" in capsys.readouterr().err


def test_d10_a_save_that_was_cut_short_after_its_commit_is_finished_by_a_resume(trained, tmp_path):
    run = Path(shutil.copytree(trained, tmp_path / "run"))
    (run / "latest.json").write_text('{"step": 4}\n')
    (run / "best.json").unlink()
    shutil.copytree(run / "checkpoints" / "step-00000002", run / "checkpoints" / "step-00000001")  # not yet pruned
    assert main([*TRAIN, str(run), "--resume"]) == 0
    for name in ("latest.json", "best.json"):
        assert (run / name).read_bytes() == (trained / name).read_bytes()
    assert Checkpoints(run).steps() == Checkpoints(trained).steps()


def test_an_older_run_is_resumed_and_gets_a_manifest(trained, tmp_path, capsys):
    run = make_older(Path(shutil.copytree(trained, tmp_path / "run")))
    assert main(more(run)) == 0
    assert "has no MANIFEST.json" in " ".join(capsys.readouterr().err.split())
    assert set(read_run_manifest(run).adopted) == {f"step-0000000{n}" for n in (2, 4, 6)}
    assert headway.load(run, device="cpu", average=2).steps == [6, 8]
    assert main(["generate", str(run), "--max-tokens", "2", "--prompt", "a"]) == 0
    assert "MANIFEST" not in capsys.readouterr().err


def test_a_run_has_the_same_id_each_time_it_is_trained(trained, tmp_path):
    assert main([*TRAIN, str(tmp_path / "again")]) == 0
    assert (tmp_path / "again" / MANIFEST).read_bytes() != b""
    assert read_run_manifest(tmp_path / "again").run == read_run_manifest(trained).run
    assert json.loads((Checkpoints(trained).path(6) / MANIFEST).read_text())["step"] == 6


# --- checksums --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK, 2 * BLOCK + 3])
def test_a_file_streamed_in_chunks_has_the_checksum_of_the_file(tmp_path, size):
    data = memoryview(random.Random(size).randbytes(size))
    streamed = StreamFingerprint()
    at, chance = 0, random.Random(1)
    while at < size:
        length = chance.choice([1, 1000, BLOCK // 3, BLOCK + 5])
        streamed.update(data[at : at + length])
        at += length
    (tmp_path / "file").write_bytes(data)
    assert streamed.result() == fingerprint(tmp_path / "file")
    check_file(tmp_path / "file", streamed.result())


def test_manifests_are_checked_without_torch():
    code = "import sys, headway.storage.run_manifest; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], env=os.environ).returncode == 0


def test_a_manifest_that_is_a_pipe_is_not_waited_for(run):
    folder = Checkpoints(run).path(3)
    (folder / MANIFEST).unlink()
    os.mkfifo(folder / MANIFEST)
    assert problems(folder) == ["MANIFEST.json is not a regular file"]


def test_pipes_in_the_place_of_files_are_not_waited_for(run, capsys):
    (run / "int8").mkdir()
    (run / LOG).unlink()
    for path in (run / "int8" / MANIFEST, run / "int8" / "model.safetensors", run / "log.jsonl"):
        os.mkfifo(path)
    assert answer(run, capsys, "--precision", "int8")[0] == 0
    assert main(["info", str(run)]) == 5
    assert "log.jsonl: could not be read (it is not a regular file" in capsys.readouterr().err


def test_info_does_not_count_a_checkpoint_that_is_not_of_its_step(run):
    shutil.copytree(Checkpoints(run).path(1), Checkpoints(run).path(59))
    with pytest.warns(AdviceWarning, match="it is the checkpoint of step 1"):
        assert headway.load(run, device="cpu").info()["step"] == 3
