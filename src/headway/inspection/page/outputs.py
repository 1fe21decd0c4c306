"""The model's output: for each position the likeliest tokens with their logits, and the softmax normaliser."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from headway.inspection.page.tensors import PageTensors
from headway.tasks.explanation import Output

TOP = 8
WHOLE = 40_000  # logits of whole rows that a page keeps, from the last place back, for temperature, top-k and top-p


def output_entry(logits_TV: Tensor, output: Output, tensors: PageTensors) -> dict[str, Any]:
    """The likeliest tokens at each place, the target's own logit, and log Σ exp over all, so that shares are exact."""
    logits = logits_TV.detach().float().cpu()
    best, ids = logits.topk(min(TOP, logits.shape[-1]))
    wanted = torch.tensor([0 if target is None else target for target in output.targets])
    target_logits = logits.gather(-1, wanted.unsqueeze(-1)).squeeze(-1)
    used = {*ids.flatten().tolist(), *(target for target in output.targets if target is not None)}
    return {
        "label": output.label,
        "sequence": output.sequence,
        "size": logits.shape[-1],
        "words": {str(index): output.name(index) for index in sorted(used)},
        "ids": ids.tolist(),
        "logits": tensors.full(best),
        "shares": tensors.full(logits.softmax(-1).gather(-1, ids)),  # the badge compares the page's softmax with it
        "normaliser": tensors.full(logits.logsumexp(-1)),
        "unit": output.unit,
        "drawn": output.drawn,
        "whole": _whole(logits, tensors) if output.drawn else None,
        "targets": list(output.targets),
        "target_logits": tensors.full(target_logits),
        "ranks": (logits > target_logits.unsqueeze(-1)).sum(-1).add(1).tolist(),
    }


def _whole(logits_TV: Tensor, tensors: PageTensors) -> dict[str, Any] | None:
    """Every logit of the last places, as many as fit: `first` is the first of them. None where not even one does."""
    places = min(len(logits_TV), WHOLE // max(1, logits_TV.shape[-1]))
    if not places:
        return None
    first = len(logits_TV) - places
    return {"first": first, "logits": tensors.full(logits_TV[first:])}
