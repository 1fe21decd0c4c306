"""The Decision Transformer (Chen et al. 2021): actions conditioned on the return to go; no model of the world."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from headway.config import positive
from headway.models.inputs import Model, ModelInputs, ModelOutputs
from headway.models.observation import Numbers, Tokens, TokenSum
from headway.nn.attention import AttentionConfig
from headway.nn.block import BlockConfig
from headway.nn.feedforward import FeedForwardConfig
from headway.nn.linear import xavier_init
from headway.nn.positions import Learned
from headway.nn.stack import Stack, StackConfig
from headway.ops import Causal


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionConfig:
    """Sizes of a Decision Transformer; the defaults are the paper's for control."""

    observation: Tokens | Numbers  # what the environment shows: tokens or real numbers; the data sets its sizes
    actions: int  # how many actions there are; the environment sets it
    context: int = 20  # steps, of three tokens each: the return to go, the state, the action
    width: int = 128  # features of a token's vector, D
    layers: int = 3  # blocks in the stack
    heads: int = 1  # attention heads; they divide the width
    dropout: float = 0.1  # share of features put to 0 in training, at least 0 and below 1

    def __post_init__(self) -> None:
        for name in ("actions", "context"):
            positive(f"model.{name}", getattr(self, name))

    @property
    def stack(self) -> StackConfig:
        """The stack these sizes describe."""
        attention = AttentionConfig(width=self.width, heads=self.heads, dropout=self.dropout)
        feedforward = FeedForwardConfig(inner=4 * self.width, activation="relu")
        block = BlockConfig(attention=attention, feedforward=feedforward, place="pre", dropout=self.dropout)
        context = 3 * self.context
        return StackConfig(layers=self.layers, block=block, context=context, position=Learned(), causal=True)

    def build(self) -> Decision:
        return Decision(self)

    @property
    def text(self) -> None:
        return None


class Decision(Model):
    """Returns to go, states and actions, interleaved -> logits of the action at each state."""

    mean: Tensor
    std: Tensor
    scale: Tensor

    def __init__(self, config: DecisionConfig) -> None:
        super().__init__()
        seen, width = config.observation, config.width
        self.actions, self.context = config.actions, config.context
        self.stack = Stack(config.stack)
        self.asked = nn.Linear(1, width)
        self.numbers = nn.Linear(seen.size, width) if isinstance(seen, Numbers) else None
        self.head = nn.Linear(width, config.actions)
        xavier_init(self)
        self.tokens = None if isinstance(seen, Numbers) else TokenSum(seen.parts, seen.levels, width)
        self.action = nn.Embedding(config.actions, width)
        size = seen.size if isinstance(seen, Numbers) else 1
        self.register_buffer("mean", torch.zeros(size))
        self.register_buffer("std", torch.ones(size))
        self.register_buffer("scale", torch.ones(()))  # of returns

    def forward(self, returns_BT: Tensor, states_BT: Tensor, actions_BT: Tensor) -> Tensor:
        """(B, T), (B, T, …), (B, T) -> logits (B, T, A); an action is not visible where it is predicted."""
        dtype = self.mean.dtype  # of a model in bfloat16: observations and returns are given in float32
        if self.numbers is not None:
            seen = self.numbers(((states_BT - self.mean) / self.std).to(dtype))
        else:
            assert self.tokens is not None
            seen = self.tokens(states_BT)
        asked = self.asked((returns_BT / self.scale).to(dtype).unsqueeze(-1))
        x = torch.stack([asked, seen, self.action(actions_BT)], 2).flatten(1, 2)
        logits: Tensor = self.head(self.stack(x, mask=Causal())[:, 1::3])
        return logits

    features = forward

    title = "decision transformer"
    reads = frozenset({"returns", "states", "actions"})

    def run(self, inputs: ModelInputs) -> ModelOutputs:
        return ModelOutputs(actions=self(inputs.need("returns"), inputs.need("states"), inputs.need("actions")))
