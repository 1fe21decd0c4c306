"""A run with everything in it that `headway runs clean` can free."""

from __future__ import annotations

from pathlib import Path

import torch

import headway
from headway.interop.hf_reference import REFERENCE
from headway.models import GptConfig
from headway.storage.run_manifest import commit_run_files, read_run_manifest
from headway.training.best import BestCheckpoint
from headway.training.checkpoints import Checkpoints
from headway.training.log import LOG, log_line
from tests.interop.runs import write_run

GPT = GptConfig(vocab=30, context=24, width=16, layers=1, heads=2)
STEPS, BEST = (2, 3, 4, 5), 3
KINDS = {"damaged", "checkpoints", "optimiser", "int8", "reference", "pages"}


def write_messy(folder: Path, *, spec: str = "nowhere") -> Path:
    """Checkpoints of steps 2 to 5, all with optimiser state, of which step 3 is the best; and copies, pages, damage."""
    run = write_run(folder, GPT, spec=spec)
    checkpoints = Checkpoints(run)
    weights, _ = checkpoints.weights()
    for step in STEPS:
        moved = {name: tensor + 0.01 * step for name, tensor in weights.items()}
        facts = {"step": step, "best_step": min(step, BEST), "best": 0.5, "stale": max(step - BEST, 0)}
        checkpoints.save(step, moved, {"random.cpu": torch.get_rng_state()}, facts)
    checkpoints.path(1).rename(checkpoints.path(1).with_name("damaged-step-00000001"))
    checkpoints.mark_best(BestCheckpoint(BEST, 0.5))
    known = read_run_manifest(run)
    files = {name: (run / name).read_bytes() for name in known.files} | {REFERENCE: b"logits"}
    commit_run_files(run, files, run=known.run, adopted=known.adopted)
    lines = [{"step": 5, "loss": 1.0, "seconds": 2.0}, {"step": 3, "val_loss": 0.5}, {"step": 5, "val_loss": 0.75}]
    (run / LOG).write_text("".join(log_line(entry, known.run) + "\n" for entry in lines))
    (run / "log-damaged.jsonl").write_text("x\n")
    (run / "page.html").write_text("<html>")
    (run / "beam.jsonl").write_text("{}\n")
    (run / ".draft-0123abcd-best.json").write_text("half")
    (run / "tensorboard").mkdir()
    (run / "tensorboard" / "events").write_text("kept")
    headway.load(run, device="cpu", precision="int8")
    assert (run / "int8").is_dir()
    return run
