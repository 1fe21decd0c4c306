"""Runs: training into a folder, and loading what a folder holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headway._lazy import on_demand

if TYPE_CHECKING:
    from headway.runs.folder import read_config
    from headway.runs.run import Run, load
    from headway.runs.settings import with_settings
    from headway.runs.train import plan_run, train_run
else:
    __getattr__ = on_demand(
        __name__,
        {
            "headway.runs.folder": ("read_config", "read_tokenizers"),
            "headway.runs.run": ("Run", "load"),
            "headway.runs.train": ("plan_run", "train_run"),
            "headway.runs.settings": ("with_settings",),
        },
    )

__all__ = ["Run", "load", "plan_run", "read_config", "train_run", "with_settings"]
