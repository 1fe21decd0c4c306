"""The page's logit lens: the likeliest tokens after each block."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from headway.errors import ConfigError
from headway.inspection.logit_lens import logit_lens
from headway.inspection.page.record import ForwardRecord
from headway.inspection.page.tensors import PageTensors

TOP = 3


def lens_entry(recording: ForwardRecord, name: Callable[[int], str], tensors: PageTensors) -> dict[str, Any] | None:
    """The likeliest tokens at each position by block, or None for a model without a logit lens."""
    try:
        found = logit_lens(recording.model, recording.captured)
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
