"""The act phase: what each way of learning a policy minimises at a step, and what it keeps between steps."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import fields

import torch
from torch import Tensor

from headway.data.episodes import Episodes, HistoryPolicy, Policy
from headway.models.world import World
from headway.tasks.training_task import Term
from headway.tasks.world_model.config import WorldModel
from headway.tasks.world_model.imagination import Experience, Start, acting, actor_critic, drawn, imagine, proximal
from headway.tasks.world_model.learners import ProximalPolicy, ValueIteration
from headway.tasks.world_model.planning import Plan, imitate, learned_table, plan
from headway.tasks.world_model.policy import exploring
from headway.tasks.world_model.posterior import by_posterior

TERMS = ("policy", "variety", "value")


class PolicyLearning(ABC):
    """Learns a policy in a model that does not change meanwhile."""

    def __init__(self, config: WorldModel) -> None:
        self.config = config

    @abstractmethod
    def begin(self, at: int) -> bool:
        """Before step `at` of the phase -> whether its loss needs starts of rollouts."""

    @abstractmethod
    def loss(self, model: World, start: Start | None, count: int) -> dict[str, Term]:
        """What actor and critic minimise at this step, `count` being what its sum is divided by."""

    def count(self, starts: int) -> int:
        """The summands of a step's loss, if this many rollouts may begin."""
        return starts * self.config.horizon

    def state(self) -> dict[str, Tensor]:
        """What is kept between steps, for a checkpoint."""
        return {}

    @abstractmethod
    def restore(self, state: dict[str, Tensor]) -> None:
        """Continue from what a checkpoint holds; nothing is kept before the phase begins."""

    def collector(self, model: World, episodes: Episodes, device: torch.device, *stream: int) -> Policy | HistoryPolicy:
        """What collects the next episodes, after these: the policy, with a share of random actions."""
        return exploring(model, device, *stream, share=self.config.explore)


def policy_learning(config: WorldModel) -> PolicyLearning:
    """The one that the config names."""
    if isinstance(config.learner, ValueIteration):
        return PlanImitation(config, config.learner)
    if isinstance(config.learner, ProximalPolicy):
        return ProximalLearning(config, config.learner)
    return ActorCriticLearning(config)


class ActorCriticLearning(PolicyLearning):
    """New rollouts for every step."""

    def begin(self, at: int) -> bool:
        return True

    def loss(self, model: World, start: Start | None, count: int) -> dict[str, Term]:
        assert start is not None
        config = self.config
        rollout = imagine(model, start, config.horizon, acting(model, drawn))
        parts = actor_critic(model, rollout, discount=config.discount, trace=config.trace, entropy=config.entropy)
        return _terms(parts, count)

    def restore(self, state: dict[str, Tensor]) -> None:
        return


class ProximalLearning(PolicyLearning):
    """New rollouts every `reuse` steps; a step learns from rows of them, drawn at random."""

    def __init__(self, config: WorldModel, learner: ProximalPolicy) -> None:
        super().__init__(config)
        self.learner = learner
        self.experience: Experience | None = None

    def begin(self, at: int) -> bool:
        if at % self.learner.reuse == 0:
            self.experience = None
        return self.experience is None

    def count(self, starts: int) -> int:
        return self.learner.rows

    def loss(self, model: World, start: Start | None, count: int) -> dict[str, Term]:
        config, learner = self.config, self.learner
        if self.experience is None:
            assert start is not None
            rollout = imagine(model, start, config.horizon, acting(model, drawn))
            self.experience = Experience.of(model, rollout, discount=config.discount, trace=config.trace)
        actions = self.experience.actions
        rows = torch.randint(len(actions), (count,)).to(actions.device)
        parts = proximal(model, self.experience, rows, clip=learner.clip, entropy=config.entropy)
        return _terms(parts, count)

    def state(self) -> dict[str, Tensor]:
        kept = self.experience
        return {} if kept is None else {field.name: getattr(kept, field.name) for field in fields(kept)}

    def restore(self, state: dict[str, Tensor]) -> None:
        self.experience = Experience(**state) if state else None


class PlanImitation(PolicyLearning):
    """One plan for the whole phase, which the actor imitates."""

    def __init__(self, config: WorldModel, learner: ValueIteration) -> None:
        super().__init__(config)
        self.learner = learner
        self.plan: Plan | None = None

    def begin(self, at: int) -> bool:
        if not at:
            self.plan = None
        return False

    def loss(self, model: World, start: Start | None, count: int) -> dict[str, Term]:
        self.plan = self.plan or plan(model, model.scale.device, self.config.discount)
        policy, value = imitate(model, self.plan)
        return {"policy": Term(policy, len(self.plan.states)), "value": Term(value, len(self.plan.states))}

    def restore(self, state: dict[str, Tensor]) -> None:
        self.plan = None

    def collector(self, model: World, episodes: Episodes, device: torch.device, *stream: int) -> Policy | HistoryPolicy:
        if not self.learner.posterior:
            return super().collector(model, episodes, device, *stream)
        return by_posterior(
            learned_table(model, device), episodes, *stream,
            discount=self.config.discount, every=self.learner.posterior, share=self.config.explore,
        )  # fmt: skip


def _terms(parts: tuple[Tensor, Tensor, Tensor], count: int) -> dict[str, Term]:
    return {name: Term(x, count) for name, x in zip(TERMS, parts, strict=True)}
