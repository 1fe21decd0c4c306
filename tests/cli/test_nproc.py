"""`headway train --nproc` and torchrun, with real processes; and the examples of docs/scale."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from headway.cli.rank_check import RankCheck, expect_equal
from headway.errors import VerificationError
from headway.reliability.ranks import children_of, is_far, listeners
from headway.training.checkpoints import Checkpoints
from headway.training.log import LOG, read_log

ROOT = Path(__file__).parents[2]
SMALL = (
    "--train.steps 24 --train.accumulate 4 --train.batch_tokens 64 --train.save_every 4 --train.evaluate_every 12 "
    "--train.device cpu --model.width 16 --model.layers 1 --model.heads 2 --model.context 16 --task.context 16 "
    "--model.dropout 0.1"
)
ENVIRONMENT = {
    **os.environ, "PYTHONPATH": os.pathsep.join(str(Path(path).resolve()) for path in sys.path if path),
    "OMP_NUM_THREADS": "1",
}  # fmt: skip


def command(folder: Path, out: str, more: str = "") -> list[str]:
    book = folder / "book.txt"
    book.write_text("the quick brown fox jumps over the lazy dog and runs away from it again\n" * 60)
    words = f"train gpt-char --data {book} --out {folder / out} {SMALL} {more}"
    return ["-m", "headway", *shlex.split(words)]


def run(words: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *words], env=ENVIRONMENT, capture_output=True, text=True, timeout=300)


def content(folder: Path) -> tuple[list[bytes], list[tuple[object, ...]]]:
    newest = Checkpoints(folder).path(Checkpoints(folder).steps()[-1])
    log = [(each["step"], each.get("loss"), each.get("val_loss")) for each in read_log(folder / LOG)]
    return [path.read_bytes() for path in sorted(newest.iterdir())], log


@pytest.mark.slow  # seven cold starts
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_run_of_two_processes_one_of_them_killed_is_the_run_of_one(tmp_path):
    alone = run(command(tmp_path, "alone"))
    assert alone.returncode == 0, alone.stderr
    with subprocess.Popen(
        [sys.executable, *command(tmp_path, "two", "--nproc 2")], env=ENVIRONMENT, stderr=subprocess.PIPE, text=True
    ) as process:
        deadline = time.monotonic() + 240
        while not Checkpoints(tmp_path / "two").steps() and time.monotonic() < deadline:
            time.sleep(0.01)
        ranks = children_of(process.pid)
        listening = listeners([process.pid, *ranks])
        os.kill(ranks[-1], signal.SIGKILL)
        _, err = process.communicate(timeout=240)
    assert process.returncode == 0, err
    assert len(ranks) == 2
    assert listening
    assert not any(is_far(each) for each in listening)
    assert "rank 1 was ended by SIGKILL; all 2 ranks start again" in err
    assert content(tmp_path / "two") == content(tmp_path / "alone")


@pytest.mark.slow  # six cold starts
def test_verify_compares_one_process_with_two(tmp_path):
    assert run(command(tmp_path, "made", "--train.steps 2")).returncode == 0
    found = run(["-m", "headway", "verify", str(tmp_path / "made"), "--ranks", "2", "--json"])
    assert found.returncode == 0, found.stderr
    told = json.loads(found.stdout)
    assert told["equal"]
    assert told["alone"] == told["together"]
    refused = run(["-m", "headway", "verify", str(tmp_path / "made"), "--ranks", "3"])
    assert refused.returncode == 2
    assert "sums in one order need 1, 2, 4, 8, … ranks" in refused.stderr


def test_other_weights_of_several_processes_are_an_error():
    check = RankCheck(2, "cpu", "a" * 64, "b" * 64)
    assert check.lines()[-1] == "different bytes: train.reduction exact does not hold here"
    with pytest.raises(VerificationError, match="2 processes train other weights"):
        expect_equal(check, "runs/x")
    expect_equal(RankCheck(2, "cpu", "a" * 64, "a" * 64), "runs/x")


@pytest.mark.slow  # three cold starts
def test_torchrun_starts_ranks_too(tmp_path):
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    ended = run([*torchrun, *command(tmp_path, "torchrun")])
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout == f"{tmp_path / 'torchrun'}\n"
    assert run(command(tmp_path, "alone")).returncode == 0
    assert content(tmp_path / "torchrun") == content(tmp_path / "alone")


def test_the_examples_for_clusters_are_well_formed():
    subprocess.run(["bash", "-n", str(ROOT / "docs/scale/slurm.sh")], check=True)
    service, job = yaml.safe_load_all((ROOT / "docs/scale/kubernetes.yaml").read_text())
    (container,) = job["spec"]["template"]["spec"]["containers"]
    assert service["metadata"]["name"] == job["spec"]["template"]["spec"]["subdomain"]
    assert container["command"][-5:-2] == ["gpt2", "--data=/shared/corpus", "--out=/shared/runs/gpt2"]
