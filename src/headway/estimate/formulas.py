"""The closed formulas that people calculate with on paper, as a check beside what was counted on fake tensors.

N parameters in 32 bits; s tokens in a row, b rows of a micro-batch, D width, L layers, V vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from headway.models import ModelConfig
from headway.nn.stack import StackConfig
from headway.training.config import TrainConfig
from headway.training.optimisers import state_bytes

INSIDE = 34  # bytes of a token and unit of width in a block, in 16 bits with dropout (Korthikanti et al. 2022, eq. 1)
CHINCHILLA = 20  # tokens a parameter (Hoffmann et al. 2022)


@dataclass(frozen=True, slots=True, kw_only=True)
class Formulas:
    """What the formulas give, in bytes and operations; None for a model that is not one stack of blocks."""

    weights: int  # 4·N
    gradients: int  # 4·N
    optimiser: int  # 8·N of Adam
    activations: int | None  # s·b·D·L·34, kept by a fused attention kernel; recompute: 4·s·b·D·L and one block
    flops_per_token: float | None  # 6·N + 12·L·s·D: the PaLM paper's
    causal_flops_per_token: float | None  # 6·N + 6·L·s·D
    chinchilla_tokens: int  # 20·N


def formulas_of(model: ModelConfig, train: TrainConfig, *, parameters: int, context: int, tokens: int) -> Formulas:
    """The formulas for a model of so many parameters, rows of `context` tokens, `tokens` in a micro-batch."""
    stack: Any = getattr(model, "stack", None)
    one = isinstance(stack, StackConfig)
    activations = palm = causal = None
    if one:
        width, layers = stack.block.attention.width, stack.layers
        scores = 12 * layers * context * width
        palm, causal = 6.0 * parameters + scores, 6.0 * parameters + scores / 2
        wide = 1 if train.precision == "bf16" else 2
        kept = 4 * layers + wide * INSIDE if train.recompute == "blocks" else wide * INSIDE * layers
        activations = tokens * width * kept
    return Formulas(
        weights=4 * parameters,
        gradients=4 * parameters,
        optimiser=state_bytes(train.optimiser, parameters),
        activations=activations,
        flops_per_token=palm,
        causal_flops_per_token=causal,
        chinchilla_tokens=CHINCHILLA * parameters,
    )


@dataclass(frozen=True, slots=True)
class PublishedCost:
    """The operations of a training as a paper reckons them: time × GPUs × sustained operations a second of each."""

    hours: float
    gpus: int
    sustained: float
    source: str

    @property
    def flops(self) -> float:
        """Their product."""
        return 3600 * self.hours * self.gpus * self.sustained


PUBLISHED = {
    "transformer-base": PublishedCost(12, 8, 9.5e12, "12 h × 8 P100 × 9.5e12 a second (Vaswani et al. 2017, Table 2)"),
    "transformer-big": PublishedCost(
        84, 8, 9.5e12, "3.5 days × 8 P100 × 9.5e12 a second (Vaswani et al. 2017, Table 2)"
    ),
}
