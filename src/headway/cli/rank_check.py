"""`headway verify --ranks N`: whether N processes train the same weights as one on this machine, by their checksums."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from headway.errors import ConfigError, VerificationError
from headway.training.checkpoints import Checkpoints

STEPS = 4


@dataclass(frozen=True, slots=True)
class RankCheck:
    """What one process and several have written after the same steps."""

    ranks: int
    device: str
    alone: str  # SHA-256 of all files of the checkpoint
    together: str

    @property
    def equal(self) -> bool:
        """Whether they are the same."""
        return self.alone == self.together

    def lines(self) -> list[str]:
        """For people."""
        verdict = "the same bytes" if self.equal else "different bytes"
        return [
            f"{STEPS} steps on the {self.device}, SHA-256 of the checkpoint: model, optimiser and position in the data",
            f"  1 process    {self.alone}",
            f"  {self.ranks} processes  {self.together}",
            f"{verdict}: train.reduction exact {'holds' if self.equal else 'does not hold'} here",
        ]


def check_ranks(run: Path, ranks: int, device: str) -> RankCheck:
    """Train a run's config anew for a few steps, by one process and by several, in a temporary folder.

    Raises ConfigError if one of the trainings fails, with what it said last.
    """
    with tempfile.TemporaryDirectory(prefix="headway-verify-") as scratch:
        found = [_trained(run, Path(scratch) / str(count), count, ranks, device) for count in (1, ranks)]
    return RankCheck(ranks, device, *found)


def expect_equal(check: RankCheck, run: str) -> None:
    """Raise VerificationError if several processes trained other weights."""
    if not check.equal:
        raise VerificationError(f"{run}: {check.ranks} processes train other weights than one on this machine")


def _trained(run: Path, out: Path, count: int, ranks: int, device: str) -> str:
    settings = {
        "steps": STEPS, "evaluate_every": STEPS, "save_every": STEPS, "accumulate": ranks, "reduction": "exact",
        "shard": "none", "compile": "false", "device": device,
    }  # fmt: skip
    words = [word for key, value in settings.items() for word in (f"--train.{key}", str(value))]
    command = [sys.executable, "-m", "headway", "train", "--config", str(run / "config.yaml"), "--out", str(out)]
    environment = {**os.environ, "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS") or "1"}  # alike for both
    ended = subprocess.run(
        [*command, *words, "--nproc", str(count)], env=environment, capture_output=True, text=True, check=False
    )
    if ended.returncode:
        last = (ended.stderr.strip().splitlines() or ["it said nothing"])[-1].removeprefix("headway: ")
        raise ConfigError(f"training by {count} of {ranks} processes ended with exit code {ended.returncode}: {last}")
    digest = hashlib.sha256()
    for path in sorted(Checkpoints(out).path(STEPS).iterdir()):
        digest.update(f"{path.name}\n".encode() + path.read_bytes())
    return digest.hexdigest()
