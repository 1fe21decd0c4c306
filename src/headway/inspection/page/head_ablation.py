"""What happens with each head switched off, computed beforehand for the page's input."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from headway.inspection.ablation import ablate
from headway.inspection.page.tensors import Tensors
from headway.tasks.explanation import Output

MOST = 5e11  # multiplications for all heads together, about a quarter of a minute on two cores; beyond it none is tried


@torch.no_grad()
def ablation_entry(
    model: nn.Module,
    forward: Callable[[], Tensor],
    attentions: Sequence[dict[str, Any]],
    logits_TV: Tensor,
    output: Output,
    tensors: Tensors,
) -> dict[str, Any] | None:
    """By how much what came becomes less likely, place by place, and what would be said, for each head by itself.

    None where that would take long, or where there are no heads to switch off.
    """
    first: dict[str, int] = {}  # a block in a loop has many looks, and its heads are switched off for all of them
    for n, entry in enumerate(attentions):
        if entry["stack"] != entry["name"]:
            first.setdefault(entry["tap"], n)
    heads = [(n, head) for n in first.values() for head in range(attentions[n]["heads"])]
    size = sum(parameter.numel() for parameter in model.parameters()) * max(entry_rows(attentions), 1)
    if not heads or size * len(heads) > MOST:
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
    """How many tokens the longest text has, by the rows that are compared: the last one is among them."""
    return max((entry["rows"][-1] + 1 for entry in attentions), default=0)
