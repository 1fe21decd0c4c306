"""What interventions do to an output: at each place, the same tokens before and after."""

from __future__ import annotations

from dataclasses import asdict, dataclass
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
    inputs: tuple[str, str] | None = None  # before and after an edit

    def entry(self, tensors: PageTensors) -> dict[str, Any]:
        """For the page: the log-probabilities (T,) of the tokens that came; where nothing came, of the likeliest."""
        heads = self.interventions.patched_heads
        entry: dict[str, Any] = {
            "ablated": [{"label": str(each), **asdict(each)} for each in self.interventions.ablated],
            "patched": [name.rpartition(".")[0] for name in self.interventions.patched],
            "patched_heads": None if heads is None else list(heads),
            "note": self.note,
            "inputs": None if self.inputs is None else list(self.inputs),
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
    model: nn.Module,
    plain: Explanation,
    changed: Explanation,
    interventions: Interventions,
    note: str = "",
    edited: Explanation | None = None,
) -> OutputChange:
    """Run `plain` with and without interventions; `changed` is what the model does with them by itself.

    Where the input was edited as well, `edited` reads the new one and has the output of `plain` at the same places.
    Where it has other places, only the whole outputs are compared.
    """
    before = plain.forward()
    with interventions.applied(model):
        after = (edited or plain).forward()
        said = _said(changed, after if changed is plain else None)
    if edited is not None and _begins_with(edited, plain):
        after = after[: len(before)]
    return OutputChange(
        interventions=interventions,
        said=(_said(plain, before), said),
        output=plain.output if after.shape == before.shape else None,
        before=before,
        after=after,
        note=note,
        inputs=None if edited is None else (plain.given, edited.given),
    )


def _begins_with(edited: Explanation, plain: Explanation) -> bool:
    """Whether the output of one is that of the other, and perhaps one place more."""
    if edited.output is None or plain.output is None:
        return False
    return list(edited.output.targets[: len(plain.output.targets)]) == list(plain.output.targets)


def _said(explanation: Explanation, logits: Tensor | None) -> str:
    if isinstance(explanation.said, str):
        return explanation.said
    return explanation.said(explanation.forward() if logits is None else logits)


def _of(log_probs_TV: Tensor, ids: list[int]) -> Tensor:
    index = torch.tensor(ids, device=log_probs_TV.device).unsqueeze(-1)
    return log_probs_TV.gather(-1, index).squeeze(-1)
