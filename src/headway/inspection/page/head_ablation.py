"""Ablation of each head, precomputed for the page's input."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from headway.inspection.ablation import ablate
from headway.inspection.page.tensors import PageTensors
from headway.tasks.explanation import Output

MAX_OPERATIONS = 5e11  # multiplications for all heads, about 15 seconds on two cores; above it the page has no ablation


@torch.no_grad()
def ablation_entry(
    model: nn.Module,
    forward: Callable[[], Tensor],
    attentions: Sequence[dict[str, Any]],
    logits_TV: Tensor,
    output: Output,
    tensors: PageTensors,
) -> dict[str, Any] | None:
    """For each head: the change of the target's log-probability at each position without it, and the new argmax.

    None where that would take long, or where there are no heads to ablate.
    """
    first: dict[str, int] = {}  # a shared block has an entry for each use; its heads are ablated in all of them
    for n, entry in enumerate(attentions):
        if entry["stack"] != entry["name"]:
            first.setdefault(entry["tap"], n)
    heads = [(n, head) for n in first.values() for head in range(attentions[n]["heads"])]
    size = sum(parameter.numel() for parameter in model.parameters()) * max(entry_rows(attentions), 1)
    if not heads or size * len(heads) > MAX_OPERATIONS:
        return None
    plain = logits_TV.float().log_softmax(-1)
    likeliest = plain.argmax(-1)
    came = torch.tensor(
        [best if target is None else target for best, target in zip(likeliest.tolist(), output.targets, strict=True)],
        device=plain.device,
    ).unsqueeze(-1)
    changes, said = [], []
    for n, head in heads:
        with ablate(model, heads={attentions[n]["tap"]: [head]}):
            without = forward().float().log_softmax(-1)
        changes.append((without - plain).gather(-1, came).squeeze(-1))
        said.append(without.argmax(-1).tolist())
    used = {index for line in [*said, likeliest.tolist()] for index in line}
    return {
        "heads": [{"attention": n, "head": head} for n, head in heads],
        "changes": tensors.full(torch.stack(changes)),
        "said": said,
        "plain": likeliest.tolist(),
        "words": {str(index): output.name(index) for index in sorted(used)},
    }


def entry_rows(attentions: Sequence[dict[str, Any]]) -> int:
    """The length of the longest sequence, by its compared rows: the last row is always one of them."""
    return max((entry["rows"][-1] + 1 for entry in attentions), default=0)
