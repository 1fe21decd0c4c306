"""The adapters of a run as a folder of their own."""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

from headway.errors import ConfigError
from headway.interop import adapter
from headway.training.checkpoints import Checkpoints

if TYPE_CHECKING:
    from headway.interop.export_proof import ExportProof
    from headway.runs.run import Run


def export_adapter(run: Run, out: Path) -> ExportProof:
    """Write the adapters of a run's best checkpoint for PEFT. Raises ConfigError for a run without adapters."""
    lora = run.config.train.lora
    if lora is None:
        raise ConfigError(
            f"{run.folder} has no adapters: it was not trained with train.lora; leave --adapter out to export all of it"
        )
    if run.config.data.new_tokens:
        raise ConfigError(
            f"{run.folder} has new tokens, which its base model lacks: its adapters cannot be exported alone; "
            "leave --adapter out to export all of it"
        )
    if len(run.steps) > 1:
        raise ConfigError(
            f"{run.folder}: the mean of {len(run.steps)} checkpoints is not an adapter of rank {lora.rank}; "
            "pass --average 0 for the best checkpoint"
        )
    request = run.pipeline.export_request()
    if request.model is not run.model:
        raise ConfigError(
            f"{run.folder} predicts numbers, whose mean and deviation are part of the exported output layer: its "
            "adapters cannot be exported alone; leave --adapter out to export all of it"
        )
    stored = Checkpoints(run.folder).weights(merged=False)[0]
    also = [name for name in stored if any(fnmatchcase(name, pattern) for pattern in lora.also)]
    return adapter.export_adapter(request, stored, also, lora.dropout, out)
