"""What interventions do to an output: at each place, the same tokens before and after."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from headway.inspection.interventions import Interventions
from headway.inspection.page.tensors import PageTensors
from headway.tasks.explanation import Explanation, Output


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputChange:
    """An output with nothing changed, and the same with interventions."""

    interventions: Interventions
    said: tuple[str, str]  # the whole output before and after
    output: Output | None  # None for a model without probabilities
    before: Tensor  # (T, V) logits
    after: Tensor
    note: str = ""

    def entry(self, tensors: PageTensors) -> dict[str, Any]:
        """For the page: the log-probabilities (T,) of the tokens that came; where nothing came, of the likeliest."""
        entry: dict[str, Any] = {
            "ablated": [
                {"part": each.part, "head": each.head, "instead": each.instead, "label": str(each)}
                for each in self.interventions.ablated
            ],
            "patched": [name.removesuffix(".out") for name in self.interventions.patched],
            "note": self.note,
            "said": list(self.said),
            "places": None,
        }
        if self.output is None:
            return entry
        before, after = (each.float().log_softmax(-1) for each in (self.before, self.after))
        name, targets = self.output.name, self.output.targets
        ids = [
            best if target is None else target for best, target in zip(before.argmax(-1).tolist(), targets, strict=True)
        ]
        entry["places"] = {
            "came": [name(index) for index in ids],
            "before": tensors.full(_of(before, ids)),
            "after": tensors.full(_of(after, ids)),
            "likeliest": [[name(index) for index in each.argmax(-1).tolist()] for each in (before, after)],
        }
        return entry


@torch.no_grad()
def output_change(
    model: nn.Module, plain: Explanation, changed: Explanation, interventions: Interventions, note: str = ""
) -> OutputChange:
    """Run `plain` with and without interventions; `changed` is what the model does with them by itself."""
    before = plain.forward()
    with interventions.applied(model):
        after = plain.forward()
        said = _said(changed, after if changed is plain else None)
    return OutputChange(
        interventions=interventions,
        said=(_said(plain, before), said),
        output=plain.output,
        before=before,
        after=after,
        note=note,
    )


def _said(explanation: Explanation, logits: Tensor | None) -> str:
    if isinstance(explanation.said, str):
        return explanation.said
    return explanation.said(explanation.forward() if logits is None else logits)


def _of(log_probs_TV: Tensor, ids: list[int]) -> Tensor:
    index = torch.tensor(ids, device=log_probs_TV.device).unsqueeze(-1)
    return log_probs_TV.gather(-1, index).squeeze(-1)
