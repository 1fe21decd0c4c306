"""What a run can do, for `headway info`, messages and documentation."""

from __future__ import annotations

from headway.runs.config import RunConfig


def capabilities(config: RunConfig) -> list[str]:
    """The commands that work on a run of this config: ["translate", "score", "evaluate", …]."""
    return list(config.task.pipeline_class().can())
