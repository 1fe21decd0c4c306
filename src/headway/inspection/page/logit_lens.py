"""The logit lens as the page shows it: after each block the likeliest tokens, had the model stopped there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from headway.errors import ConfigError
from headway.inspection.logit_lens import logit_lens
from headway.inspection.page.record import Recording
from headway.inspection.page.tensors import Tensors

TOP = 3


def lens_entry(recording: Recording, name: Callable[[int], str], tensors: Tensors) -> dict[str, Any] | None:
    """The likeliest at each place by block, or None for a model whose blocks cannot be read so."""
    try:
        found = logit_lens(recording.model, recording.seen)
    except ConfigError:
        return None
    logits_LTV = torch.stack([value[0] if value.ndim == 3 else value for value in found.values()]).float()
    shares, ids = logits_LTV.softmax(-1).topk(min(TOP, logits_LTV.shape[-1]))
    return {
        "layers": [f"block {n + 1}" for n in range(len(found))],
        "ids": ids.tolist(),
        "shares": tensors.full(shares),
        "words": {str(index): name(index) for index in sorted(set(ids.flatten().tolist()))},
    }
