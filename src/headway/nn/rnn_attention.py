"""Attention of a recurrent decoder over its encoder's states (Bahdanau et al. 2015; Luong et al. 2015, section 3.1).

e = key(h)·query(s), weights = softmax(e) over the source, context = Σ weight·value(h). The kinds differ in what key,
query and value are; "hard" takes the state with the highest score only, for teaching: no gradient reaches the scores.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headway.config import positive
from headway.errors import ConfigError
from headway.nn.attention_record import AttentionRecord
from headway.nn.taps import ObservableAttention, Tap
from headway.ops import masked_softmax

AlignmentKind = Literal["identity", "multiplicative", "bilinear", "learned", "additive"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlignmentConfig:
    """How a decoder state is compared with the encoder's states.

    identity: h·s, equal widths. multiplicative: W_k h · W_q s. bilinear: hᵀ W_e s, the same with W_e = W_kᵀ W_q.
    learned: σ(W_k h + b) · σ(W_q s + b) with values W_v h. additive: w·tanh(W_k h + W_q s), Bahdanau's.
    """

    kind: AlignmentKind = "multiplicative"  # the formula of the score, see above
    width: int = 128  # of keys and queries, where the kind has a choice
    hard: bool = False  # take the best state alone instead of the weighted mean; no gradient reaches the scores

    def __post_init__(self) -> None:
        positive("attention width", self.width)
        if self.kind not in get_args(AlignmentKind):
            raise ConfigError(f"attention kind={self.kind!r}, allowed: {', '.join(get_args(AlignmentKind))}")


@dataclass(frozen=True, slots=True)
class Aligned:
    """The source side, prepared once: keys (B, S, K), values (B, S, W) and which of them are real (B, S)."""

    keys: Tensor
    values: Tensor
    real: Tensor

    def select(self, rows_B: Tensor) -> Aligned:
        """These rows, in this order."""
        return Aligned(self.keys[rows_B], self.values[rows_B], self.real[rows_B])


class Alignment(ObservableAttention):
    """Attention of states (B, T, state width) over a source (B, S, memory width)."""

    def __init__(self, memory: int, state: int, config: AlignmentConfig) -> None:
        super().__init__()
        kind, width = config.kind, config.width
        if kind == "identity" and memory != state:
            raise ConfigError(f"attention kind='identity' compares states of equal width, got {memory} and {state}")
        self.kind, self.hard, self.width = kind, config.hard, memory
        projected, biased = kind in ("multiplicative", "learned", "additive"), kind == "learned"
        self.key = nn.Linear(memory, width, bias=biased) if projected else None
        self.query = nn.Linear(state, width if projected else memory, bias=biased) if kind != "identity" else None
        self.value = nn.Linear(memory, memory, bias=False) if kind == "learned" else None
        self.energy = (
            nn.Parameter(torch.empty(width).uniform_(-(width**-0.5), width**-0.5)) if kind == "additive" else None
        )
        self.tap_weights = Tap()

    def prepare(self, memory_BSW: Tensor, lengths_B: Tensor | None) -> Aligned:
        """Keys and values of the source, computed once for all decoder steps."""
        keys = memory_BSW if self.key is None else self.key(memory_BSW)
        if self.kind == "learned":
            keys = keys.sigmoid()
        values = memory_BSW if self.value is None else self.value(memory_BSW)
        steps = torch.arange(memory_BSW.shape[1], device=memory_BSW.device)
        real = steps < (memory_BSW.shape[1] if lengths_B is None else lengths_B.unsqueeze(-1))
        return Aligned(keys, values, real.expand(memory_BSW.shape[:2]))

    def forward(self, states_BTW: Tensor, source: Aligned, *, recorded: bool = True) -> Tensor:
        """(B, T, state width) -> contexts (B, T, memory width).

        A decoder may attend several times for a word: `recorded` marks the time that `on_attention` gets.
        """
        query = states_BTW if self.query is None else self.query(states_BTW)
        if self.kind == "learned":
            query = query.sigmoid()
        if self.energy is not None:
            scores = (query.unsqueeze(2) + source.keys.unsqueeze(1)).tanh() @ self.energy
        else:
            scores = query @ source.keys.mT
        weights = masked_softmax(scores, source.real.unsqueeze(1))
        if self.hard:
            weights = F.one_hot(weights.argmax(-1), weights.shape[-1]).to(weights.dtype)
        weights = self.tap_weights(weights)
        context = weights @ source.values
        if self.on_attention is not None and recorded:
            real = source.real.unsqueeze(1)
            one = (query, source.keys, source.values, context, weights, scores.masked_fill(~real, float("-inf")))
            q, k, v, output, weights, scores = (part.unsqueeze(1) for part in one)  # a single head
            self.on_attention(
                AttentionRecord(kind="cross", q=q, k=k, v=v, output=output, known_weights=weights, known_scores=scores)
            )
        return context
