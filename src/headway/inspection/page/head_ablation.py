"""Ablation of each head, precomputed for the page's input."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from headway.inspection.ablation import ablate
from headway.inspection.page.tensors import PageTensors
from headway.tasks.explanation import Output

MAX_OPERATIONS = 5e11  # multiplications for all heads; above it heads are ablated only on request
SECONDS = 15  # that so many take on two cores, about


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

    None where there are no heads to ablate.
    """
    heads = _heads(attentions)
    if not heads:
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
    changes_NT = torch.stack(changes)
    needed = int(changes_NT.sum(-1).argmin())
    used = {index for line in [*said, likeliest.tolist()] for index in line}
    return {
        "heads": [{"attention": n, "head": head} for n, head in heads],
        "changes": tensors.full(changes_NT),
        "needed": {"head": needed, "place": _place(changes_NT[needed])},
        "said": said,
        "plain": likeliest.tolist(),
        "words": {str(index): output.name(index) for index in sorted(used)},
    }


def left_out(model: nn.Module, attentions: Sequence[dict[str, Any]], output: Output | None) -> str:
    """Why the page does not ablate the heads, in a sentence; empty if it does, or if there are none."""
    heads = _heads(attentions)
    if not heads:
        return ""
    if output is None:
        return "This model gives vectors, no probabilities: there is no prediction that a head could change."
    if within_limit(model, len(heads), entry_rows(attentions)):
        return ""
    seconds = SECONDS * _operations(model, len(heads), entry_rows(attentions)) / max(MAX_OPERATIONS, 1)
    return (
        f"Running this input again without each of {len(heads)} heads would take about {seconds:,.0f} seconds on two "
        "cores, so it was left out. Run the same command with --ablate to have it computed."
    )


def within_limit(model: nn.Module, heads: int, rows: int) -> bool:
    """Whether so many heads can be ablated on an input of so many rows without asking."""
    return _operations(model, heads, rows) <= MAX_OPERATIONS


def _operations(model: nn.Module, heads: int, rows: int) -> int:
    return sum(parameter.numel() for parameter in model.parameters()) * max(rows, 1) * heads


def _heads(attentions: Sequence[dict[str, Any]]) -> list[tuple[int, int]]:
    """(attention, head) of each head that can be ablated.

    A shared block has an entry for each use; its heads are ablated in all of them.
    """
    first: dict[str, int] = {}
    for n, entry in enumerate(attentions):
        if entry["stack"] != entry["name"]:
            first.setdefault(entry["tap"], n)
    return [(n, head) for n in first.values() for head in range(attentions[n]["heads"])]


def _place(changes_T: Tensor) -> int:
    """Where a head is missed most; not at the first of several places, where it may have had nothing to choose."""
    first = min(1, len(changes_T) - 1)
    return first + int(changes_T[first:].argmin())


def entry_rows(attentions: Sequence[dict[str, Any]]) -> int:
    """The length of the longest sequence, by its compared rows: the last row is always one of them."""
    return max((entry["rows"][-1] + 1 for entry in attentions), default=0)
