"""A run as versions before the run manifest wrote it."""

from __future__ import annotations

from pathlib import Path

from headway.storage.manifest import MANIFEST, Manifest, read_manifest
from headway.training.checkpoints import Checkpoints


def make_older(run: Path) -> Path:
    """Remove the run's manifest, and the run and step from the manifests of its checkpoints."""
    (run / MANIFEST).unlink()
    checkpoints = Checkpoints(run)
    for step in checkpoints.steps():
        folder = checkpoints.path(step)
        (folder / MANIFEST).write_text(Manifest(read_manifest(folder).files).text())
    return run
