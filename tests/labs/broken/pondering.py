from __future__ import annotations

import torch

from headway.labs import pondering
from tests.labs.broken import Mutation

SHORT = {"steps": "5"}


def always_eight(model, data):
    """ACT that never halts: every column takes all steps."""
    return torch.ones_like(data.pairs, dtype=torch.bool), torch.full_like(data.pairs, pondering.CAP)


BROKEN = (Mutation("predict", always_eight, fails="correlation of steps", flags=SHORT),)
