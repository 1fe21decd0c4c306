"""The rows of the campaign, one module each: `bit-flips` is the module `bit_flips`, found by `row`."""

from __future__ import annotations

from importlib import import_module
from typing import cast

from headway.reliability.row import CampaignRow

ROWS = {  # name: class, in the order of the table
    "kills": "Kills",
    "crash-points": "CrashPoints",
    "signals": "TrainingSignals",
    "rank-kills": "RankKills",
    "rank-faults": "RankFaults",
    "full-disk": "FullDisk",
    "together": "Together",
    "read-only": "ReadOnly",
    "bit-flips": "BitFlips",
    "damaged-runs": "DamagedRuns",
    "damaged-files": "DamagedFiles",
    "commands": "Commands",
    "hostile-folders": "HostileFolders",
}


def row(name: str) -> CampaignRow:
    """A row by its name, not yet prepared."""
    module = import_module(f"headway.reliability.rows.{name.replace('-', '_')}")
    return cast(CampaignRow, getattr(module, ROWS[name])())
