"""Where generated sequences begin and end."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from headway.decoding.ensemble import Ensemble
from headway.errors import ConfigError
from headway.limits import expect_within
from headway.models.stepper import EncoderInput
from headway.nn.positions import InputPositions


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SequenceLimits:
    """The start token or prompt of each row, the stop token, and the maximum number of generated tokens."""

    start: int | Tensor  # one token for every row, or prompts (B, T), padded on the right
    stop: int  # -1: no stop token
    max_tokens: int | Tensor = 100  # for all rows, or one for each (B,)
    prompt_lengths: Tensor | None = None  # (B,) the real tokens of each prompt; None: all

    def __post_init__(self) -> None:
        if not isinstance(self.max_tokens, Tensor):
            expect_within("output-tokens", self.max_tokens, "max_tokens")

    def prompt(self, source: EncoderInput | None) -> Tensor:
        """The prompts (B, T); a single start token is repeated for each row of the source."""
        if isinstance(self.start, Tensor):
            return self.start
        if source is None:
            raise ConfigError("neither a source nor a prompt to start from")
        return torch.full((len(source.tokens), 1), int(self.start), device=source.tokens.device)


def positions_end(model: object) -> int | None:
    """How many tokens the model can number: where the shortest table of learned positions ends, None without one."""
    parts = model.models if isinstance(model, Ensemble) else [model]
    modules = (module for part in parts if isinstance(part, nn.Module) for module in part.modules())
    ends = [each.context for each in modules if isinstance(each, InputPositions) and each.table is not None]
    return min(ends, default=None)
