"""Imagined rollouts: episodes that a world model predicts, and what a policy learns from them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from headway.models.world import World

Chooser = Callable[[Tensor], Tensor]  # logits (B, A) -> actions (B,)
Acting = Callable[[Tensor, Tensor, int], Tensor]  # state (B, …), memory (B, D), step -> actions (B,)


@dataclass(frozen=True, slots=True)
class Start:
    """Where imagined rollouts begin: real steps before (B, C), their actions and ages, and the state at hand (B, 1)."""

    states: Tensor  # (B, C + 1, …)
    actions: Tensor  # (B, C)
    ages: Tensor  # (B, C + 1)


@dataclass(frozen=True, slots=True)
class ImaginedRollout:
    """An imagined rollout: states, actions, rewards; `alive` marks the steps before the episode ended.

    `memory` has the model's features of the step before each state, 0 at the first; None where the actor ignores them.
    """

    states: Tensor  # (H + 1, B, …)
    actions: Tensor  # (H, B)
    rewards: Tensor  # (H, B)
    ends: Tensor  # (H, B)
    alive: Tensor  # (H, B)
    memory: Tensor | None = None  # (H + 1, B, D)

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


def acting(model: World, choose: Chooser) -> Acting:
    """What the model's actor does in a state (B, …)."""
    return lambda state, memory, at: choose(model.actor(model.reader.normal(state), memory))


def imagine(model: World, start: Start, horizon: int, act: Acting) -> ImaginedRollout:
    """Roll the world on for `horizon` steps, one cached step of the whole batch at a time; `act` gives the actions.

    Next states and ends are drawn, not averaged; the reward is the one expected.
    """
    seen, done, given, over = [start.states[:, -1]], [], [], []
    with torch.inference_mode():
        context = start.actions.shape[1]
        cache = model.start(context + horizon)
        memory = [torch.zeros(len(start.actions), model.width, device=start.actions.device)]  # nothing before
        if context:
            h, cache = model.extend(start.states[:, :-1], start.actions, cache, start.ages[:, :-1])
            memory = [h[:, -1]]
        for k in range(horizon):
            action = act(seen[-1], memory[-1], k)
            h, cache = model.extend(seen[-1].unsqueeze(1), action.unsqueeze(1), cache, start.ages[:, -1:] + k)
            after = model.reader.draw(h[:, 0], seen[-1])
            reward, end = model.rewarded(h[:, 0], after)
            seen.append(after)
            memory.append(h[:, 0])
            done.append(action)
            given.append(reward)
            over.append(torch.rand_like(end) < end.sigmoid())
    ends = torch.stack(over)
    before = torch.cat([torch.zeros_like(ends[:1]), ends[:-1]]).cummax(0).values
    states, actions, rewards = (torch.stack(x) for x in (seen, done, given))
    return ImaginedRollout(states, actions, rewards, ends, ~before, torch.stack(memory) if model.remembers else None)


def lambda_returns(rewards: Tensor, ends: Tensor, values: Tensor, *, discount: float, trace: float) -> Tensor:
    """G_t = r_t + γ(1 - end_t)[(1 - λ)V_{t+1} + λG_{t+1}] for rewards and ends (H, B) and values (H + 1, B): (H, B)."""
    ahead, out = values[-1], []
    for t in range(len(rewards) - 1, -1, -1):
        ahead = rewards[t] + discount * (~ends[t]) * ((1 - trace) * values[t + 1] + trace * ahead)
        out.append(ahead)
    return torch.stack(out[::-1])


def _judged(
    model: World, rollout: ImaginedRollout, discount: float, trace: float
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """By actor and critic: log p of all actions (H, B, A), of those taken, values (H + 1, B), λ-returns (H, B)."""
    read, memory = model.reader.normal(rollout.states), rollout.memory
    values = model.critic(read, memory).squeeze(-1)
    rewards = rollout.rewards / model.scale
    goal = lambda_returns(rewards, rollout.ends, values.detach(), discount=discount, trace=trace)
    logs = F.log_softmax(model.actor(read[:-1], None if memory is None else memory[:-1]), -1)
    chosen = logs.gather(-1, rollout.actions.unsqueeze(-1)).squeeze(-1)
    return logs, chosen, values, goal


def actor_critic(
    model: World, rollout: ImaginedRollout, *, discount: float, trace: float, entropy: float
) -> tuple[Tensor, Tensor, Tensor]:
    """What the actor minimises, what it is rewarded for its variety, and the critic's squared error, summed over steps.

    Advantages are in units of their spread in the batch, values in units of the world's returns.
    """
    logs, chosen, values, goal = _judged(model, rollout, discount, trace)
    alive, ahead = rollout.alive.float(), goal - values[:-1].detach()
    spread = ahead[rollout.alive].std().clamp(min=1e-4)
    policy = -(chosen * ahead / spread * alive).sum()
    variety = entropy * ((logs.exp() * logs).sum(-1) * alive).sum()
    value = 0.5 * ((values[:-1] - goal).square() * alive).sum()
    return policy, variety, value


@dataclass(frozen=True, slots=True)
class Experience:
    """The steps of imagined rollouts before their ends, to be learned from more than once."""

    states: Tensor  # (N, …)
    memory: Tensor  # (N, D), or (N, 0) where the actor ignores it
    actions: Tensor  # (N,)
    logs: Tensor  # (N,) log p of the action when it was taken
    goals: Tensor  # (N,) λ-returns in units of the world's returns
    ahead: Tensor  # (N,) advantages in units of their spread

    @classmethod
    @torch.no_grad()
    def of(cls, model: World, rollout: ImaginedRollout, *, discount: float, trace: float) -> Experience:
        """By the actor and the critic at hand."""
        alive, memory = rollout.alive, rollout.memory
        _, chosen, values, goals = _judged(model, rollout, discount, trace)
        ahead = (goals - values[:-1])[alive]
        kept = rollout.states.new_zeros(*alive.shape, 0) if memory is None else memory[:-1]
        spread = ahead.std().clamp(min=1e-4)
        return cls(
            rollout.states[:-1][alive], kept[alive], rollout.actions[alive], chosen[alive], goals[alive], ahead / spread
        )


def proximal(
    model: World, experience: Experience, rows: Tensor, *, clip: float, entropy: float
) -> tuple[Tensor, Tensor, Tensor]:
    """The clipped surrogate (Schulman et al. 2017, equation 7), the entropy's share and the critic's squared error.

    Each summed over `rows` (R,) of the experience.
    """
    read, memory = model.reader.normal(experience.states[rows]), experience.memory[rows]
    logs = F.log_softmax(model.actor(read, memory), -1)
    chosen = logs.gather(-1, experience.actions[rows].unsqueeze(-1)).squeeze(-1)
    ratio, ahead = (chosen - experience.logs[rows]).exp(), experience.ahead[rows]
    policy = -torch.minimum(ratio * ahead, ratio.clamp(1 - clip, 1 + clip) * ahead).sum()
    variety = entropy * (logs.exp() * logs).sum()
    value = 0.5 * (model.critic(read, memory).squeeze(-1) - experience.goals[rows]).square().sum()
    return policy, variety, value
