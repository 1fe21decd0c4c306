"""Imagined rollouts: episodes that a world model predicts, and what a policy learns from them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from headway.models.world import World

Chooser = Callable[[Tensor], Tensor]  # logits (B, A) -> actions (B,)


@dataclass(frozen=True, slots=True)
class Start:
    """Where imagined rollouts begin: real steps before (B, C), their actions and ages, and the state at hand (B, 1)."""

    states: Tensor  # (B, C + 1, …)
    actions: Tensor  # (B, C)
    ages: Tensor  # (B, C + 1)


@dataclass(frozen=True, slots=True)
class ImaginedRollout:
    """An imagined rollout: states, actions, rewards; `alive` marks the steps before the episode ended."""

    states: Tensor  # (H + 1, B, …)
    actions: Tensor  # (H, B)
    rewards: Tensor  # (H, B)
    ends: Tensor  # (H, B)
    alive: Tensor  # (H, B)

    @property
    def returns(self) -> Tensor:
        """The summed rewards of each rollout (B,)."""
        return (self.rewards * self.alive).sum(0)


def drawn(logits: Tensor) -> Tensor:
    """An action from the softmax of each row."""
    noise = torch.empty_like(logits).exponential_()
    return (logits - noise.log()).argmax(-1)


def greedy(logits: Tensor) -> Tensor:
    """The likeliest action of each row."""
    return logits.argmax(-1)


def acting(model: World, choose: Chooser) -> Callable[[Tensor, int], Tensor]:
    """What the model's actor does in a state (B, …)."""
    return lambda state, at: choose(model.actor(model.reader.normal(state)))


def imagine(model: World, start: Start, horizon: int, act: Callable[[Tensor, int], Tensor]) -> ImaginedRollout:
    """Roll the world on for `horizon` steps, one cached step of the whole batch at a time; `act` gives the actions.

    Next states and ends are drawn, not averaged; the reward is the one expected.
    """
    seen, done, given, over = [start.states[:, -1]], [], [], []
    with torch.inference_mode():
        context = start.actions.shape[1]
        cache = model.start(context + horizon)
        if context:
            _, cache = model.extend(start.states[:, :-1], start.actions, cache, start.ages[:, :-1])
        for k in range(horizon):
            action = act(seen[-1], k)
            h, cache = model.extend(seen[-1].unsqueeze(1), action.unsqueeze(1), cache, start.ages[:, -1:] + k)
            after = model.reader.draw(h[:, 0], seen[-1])
            reward, end = model.rewarded(h[:, 0], after)
            seen.append(after)
            done.append(action)
            given.append(reward)
            over.append(torch.rand_like(end) < end.sigmoid())
    ends = torch.stack(over)
    before = torch.cat([torch.zeros_like(ends[:1]), ends[:-1]]).cummax(0).values
    return ImaginedRollout(torch.stack(seen), torch.stack(done), torch.stack(given), ends, ~before)


def lambda_returns(rewards: Tensor, ends: Tensor, values: Tensor, *, discount: float, trace: float) -> Tensor:
    """G_t = r_t + γ(1 - end_t)[(1 - λ)V_{t+1} + λG_{t+1}] for rewards and ends (H, B) and values (H + 1, B): (H, B)."""
    ahead, out = values[-1], []
    for t in range(len(rewards) - 1, -1, -1):
        ahead = rewards[t] + discount * (~ends[t]) * ((1 - trace) * values[t + 1] + trace * ahead)
        out.append(ahead)
    return torch.stack(out[::-1])


def actor_critic(
    model: World, rollout: ImaginedRollout, *, discount: float, trace: float, entropy: float
) -> tuple[Tensor, Tensor, Tensor]:
    """What the actor minimises, what it is rewarded for its variety, and the critic's squared error, summed over steps.

    Advantages are in units of their spread in the batch, values in units of the world's returns.
    """
    read, alive = model.reader.normal(rollout.states), rollout.alive.float()
    values = model.critic(read).squeeze(-1)
    rewards = rollout.rewards / model.scale
    goal = lambda_returns(rewards, rollout.ends, values.detach(), discount=discount, trace=trace)
    logs = F.log_softmax(model.actor(read[:-1]), -1)
    chosen = logs.gather(-1, rollout.actions.unsqueeze(-1)).squeeze(-1)
    ahead = goal - values[:-1].detach()
    spread = ahead[rollout.alive].std().clamp(min=1e-4)
    policy = -(chosen * ahead / spread * alive).sum()
    variety = entropy * ((logs.exp() * logs).sum(-1) * alive).sum()
    value = 0.5 * ((values[:-1] - goal).square() * alive).sum()
    return policy, variety, value
