"""The world model: a causal transformer over (observation, action) -> next observation, reward, end; and its policy.

One token for each step. The next observation is sampled first; reward and end are predicted from it and the past, so
that they agree with the observation also in a stochastic environment.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from headway.config import positive
from headway.models.inputs import Model, ModelInputs, ModelOutputs
from headway.models.observation import CodeReader, NumberReader, Observing, TokenReader, adjust
from headway.nn.attention import AttentionConfig
from headway.nn.block import BlockConfig
from headway.nn.cache import KVCache
from headway.nn.feedforward import FeedForwardConfig
from headway.nn.linear import xavier_init
from headway.nn.positions import Rotary
from headway.nn.stack import Stack, StackConfig
from headway.ops import Offset, Window

UNIT = 0.1  # share of the range of rewards in which their errors are counted
CLOCK = 2.0  # the clock's spread over an episode, in each feature: of one step it is a hundredth, and must be seen


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldConfig:
    """Sizes of a world model and of the policy that learns in it."""

    observation: Observing  # what the environment shows: tokens, real numbers or images; the data sets its sizes
    actions: int  # how many actions there are; the environment sets it
    width: int = 64  # features of a token's vector, D
    layers: int = 2  # blocks in the stack
    heads: int = 4  # attention heads; they divide the width
    inner: int = 128  # features inside the feed-forward network, F
    window: int = 4  # steps it sees, the one at hand included
    clock: int = 0  # steps an episode may have, if the model is to know how many are gone; 0: it is not
    policy: int = 64  # the width of actor and critic
    actor_reads: Literal["observation", "features"] = "observation"  # `features`: also the model's, of the step before
    dropout: float = 0.0  # share of features put to 0 in training, at least 0 and below 1

    def __post_init__(self) -> None:
        for name in ("actions", "window", "policy"):
            positive(f"model.{name}", getattr(self, name))

    @property
    def stack(self) -> StackConfig:
        """The stack these sizes describe."""
        attention = AttentionConfig(width=self.width, heads=self.heads, dropout=self.dropout)
        block = BlockConfig(
            attention=attention,
            feedforward=FeedForwardConfig(inner=self.inner, activation="gelu_tanh"),
            place="pre",
            dropout=self.dropout,
        )
        return StackConfig(layers=self.layers, block=block, context=1, position=Rotary(), causal=True)

    def build(self) -> World:
        return World(self)

    @property
    def text(self) -> None:
        return None


class World(Model):
    """(observation, action) at each step -> features from which next observation, reward and end are predicted."""

    scale: Tensor
    bounds: Tensor

    def __init__(self, config: WorldConfig) -> None:
        super().__init__()
        self.actions, self.clock, self.width = config.actions, config.clock, config.width
        self.remembers = config.actor_reads == "features"
        self.reach = config.layers * (config.window - 1) + 1  # steps that the features of a step depend on
        self.sight = Window(config.window - 1, 0)
        self.stack = Stack(config.stack)
        self.outcome = nn.Sequential(nn.Linear(2 * config.width, config.width), nn.GELU(), nn.Linear(config.width, 3))
        self.time = nn.Linear(1, config.width, bias=False) if config.clock else None
        xavier_init(self)
        if self.time is not None:
            nn.init.normal_(self.time.weight, std=CLOCK)
        self.reader: TokenReader | NumberReader = config.observation.build(config.width)
        self.action = nn.Embedding(config.actions, config.width)
        memory = config.width if self.remembers else 0
        self.actor = PolicyNetwork(self.reader, config.policy, config.actions, memory)
        self.critic = PolicyNetwork(self.reader, config.policy, 1, memory)
        self.register_buffer("scale", torch.ones(()))  # of returns: the critic's unit
        self.register_buffer("bounds", torch.tensor([-1.0, 1.0]) * torch.finfo().max)  # of rewards that are believed

    def forward(self, states_BT: Tensor, actions_BT: Tensor, ages_BT: Tensor | None = None) -> Tensor:
        """States (B, T, …) and the actions (B, T) taken there -> features (B, T, D)."""
        x: Tensor = self.stack(self._embed(states_BT, actions_BT, ages_BT), mask=self.sight)
        return x

    features = forward

    def _embed(self, states: Tensor, actions: Tensor, ages: Tensor | None) -> Tensor:
        x: Tensor = self.reader.embed(states) + self.action(actions)
        if self.time is not None and ages is not None:
            x = x + self.time((ages.float() / self.clock).clamp(max=1.0).unsqueeze(-1))
        return x

    def outcomes(self, h: Tensor, after: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Features (…, D), the state they led to (…) -> the logit of any reward, its size if any, the logit of an end.

        Whether there is a reward is separate from its size: where rewards are rare, a small reward predicted everywhere
        would be what a policy exploits.
        """
        any_reward, reward, end = self.outcome(torch.cat([h, self.reader.embed(after)], -1)).unbind(-1)
        return any_reward, reward, end

    @property
    def reward_unit(self) -> Tensor:
        """In what errors of rewards are counted: a tenth of the range of those collected, or 1 where all are alike.

        Beside the loss of an observation, which is some nats, the squared error of a small reward would hardly count.
        """
        span = self.bounds[1] - self.bounds[0]
        return torch.where((span > 0) & span.isfinite(), UNIT * span, 1.0)

    def rewarded(self, h: Tensor, after: Tensor) -> tuple[Tensor, Tensor]:
        """The expected reward, and the logit of an end: (…) each. What is hardly likely is settled, as in observations.

        A reward beyond all that were collected is not believed: a policy would seek it, and find nothing there.
        """
        any_reward, reward, end = self.outcomes(h, after)
        settled = self.reader.settled
        return settled(any_reward).sigmoid() * reward.clamp(*self.bounds), settled(end)

    def start(self, capacity: int) -> KVCache:
        """An empty cache for this many steps."""
        return self.stack.empty_cache(capacity)

    def extend(
        self, states_BK: Tensor, actions_BK: Tensor, cache: KVCache, ages_BK: Tensor | None = None
    ) -> tuple[Tensor, KVCache]:
        """More steps -> their features (B, K, D) and the cache after them."""
        offset: Offset = cache.length
        x = self.stack(self._embed(states_BK, actions_BK, ages_BK), mask=self.sight.at(offset), cache=cache)
        return x, cache.advanced(actions_BK.shape[1])

    @property
    def codes(self) -> CodeReader | None:
        """The reader of learned codes, if observations are images."""
        return self.reader if isinstance(self.reader, CodeReader) else None

    def renormalise(self, states: Tensor, moves: Tensor) -> None:
        """Update the normalisation of numbers from states (N, size) and moves (N, size); outputs stay the same."""
        if isinstance(self.reader, NumberReader):
            first = [judge.entrance for judge in (self.actor, self.critic)]
            self.reader.renormalise(states, moves, first)  # type: ignore[arg-type]

    def policy_state(self) -> dict[str, Tensor]:
        """A copy of the actor, with the normalisation of what it reads."""
        held = {name: tensor.detach().clone() for name, tensor in self.actor.state_dict().items()}
        if isinstance(self.reader, NumberReader):
            held |= {"mean": self.reader.mean.clone(), "std": self.reader.std.clone()}
        return held

    def restore_policy(self, held: dict[str, Tensor]) -> None:
        """Act as the actor of `policy_state` did, also if numbers were normalised anew since."""
        self.actor.load_state_dict({name: held[name] for name in self.actor.state_dict()})
        if isinstance(self.reader, NumberReader):
            layer, now = self.actor.entrance, (self.reader.mean, self.reader.std)
            assert isinstance(layer, nn.Linear)
            adjust(layer, (held["mean"], held["std"]), now)

    def restart_policy(self, seed: int) -> None:
        """Give actor and critic initial weights again, drawn from a seed."""
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed)
            for judge in (self.actor, self.critic):
                fresh = PolicyNetwork(self.reader, *judge.sizes)
                judge.load_state_dict(fresh.state_dict())

    title = "world model"
    reads = frozenset({"states", "actions", "ages"})

    def run(self, inputs: ModelInputs) -> ModelOutputs:
        return ModelOutputs(features=self(inputs.need("states"), inputs.need("actions"), inputs.ages))


class PolicyNetwork(nn.Module):
    """A small network that reads one state: an actor's logits, or a critic's value. Its output is 0 at first.

    With `memory` it also reads so many features of the model, those of the step before, which hold the past.
    """

    def __init__(self, reader: TokenReader | NumberReader, width: int, out: int, memory: int = 0) -> None:
        super().__init__()
        self.sizes = (width, out, memory)
        self.entrance = reader.entrance(width)
        self.memory = nn.Linear(memory, width, bias=False) if memory else None
        self.middle, self.out = nn.Linear(width, width), nn.Linear(width, out)
        nn.init.zeros_(self.out.weight)
        nn.init.zeros_(self.out.bias)

    def forward(self, read: Tensor, memory: Tensor | None = None) -> Tensor:
        """Normalised states (…), the features of the step before (…, D) unless an episode begins -> (…, out)."""
        x: Tensor = self.entrance(read)
        if self.memory is not None and memory is not None:
            x = x + self.memory(memory)
        x = self.out(self.middle(x.tanh()).tanh())
        return x
