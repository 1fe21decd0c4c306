"""Playing: the score of a finished policy in the real environment, beside chance, Q-learning and the optimum."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import torch

from headway.counts import counted
from headway.data.environments import OPTIMUM
from headway.data.episodes import Episodes, Policy, at_random, fresh_seeds, play
from headway.metrics.world import ReturnGap, ReturnStatistics
from headway.models.world import World
from headway.tasks.capabilities import PlayResult
from headway.tasks.world_model.comparison import WorldComparison
from headway.tasks.world_model.evaluation import TabularPolicies, imagined
from headway.tasks.world_model.imagination import ImaginedRollout
from headway.tasks.world_model.policy import learned
from headway.tasks.world_model.q_learning import offline_baseline, online_baseline
from headway.tasks.world_model.training import WorldTraining


@dataclass(frozen=True, slots=True, kw_only=True)
class ExactReturns:
    """Expected returns by the true transition table, which no chance of episodes is in."""

    exact_return: float
    model_free_exact_return: float
    online_model_free_exact_return: float
    imagined_data_error: float  # the standard error of the imagined return that finite data leave


@dataclass(frozen=True, slots=True, kw_only=True)
class PlayReport(PlayResult):
    """The return of a policy, and the baselines it is compared with."""

    model: World
    training: WorldTraining
    episodes: Episodes  # real ones
    rollout: ImaginedRollout  # from their first observations
    taken: int  # environment steps that the policy was learned with
    score: ReturnStatistics
    imagined: ReturnStatistics
    chance: ReturnStatistics
    without_model: ReturnStatistics  # Q-learning on the same steps
    online: ReturnStatistics  # Q-learning on as many steps of its own
    optimum: float | None
    exact: ExactReturns | None = None  # where the true table is known

    @property
    def gap(self) -> ReturnGap:
        """Imagined against real return."""
        return ReturnGap.of(self.imagined, self.score, 0.0 if self.exact is None else self.exact.imagined_data_error)

    def to_json(self) -> dict[str, Any]:
        """Flat values."""
        return {
            "mean_return": self.score.mean,
            "return_error": self.score.error,
            "episodes": self.score.episodes,
            "environment_steps": self.taken,
            "imagined_return": self.imagined.mean,
            "imagined_error": self.imagined.error,
            "imagined_less_real": self.gap.difference,
            "imagined_less_real_within": self.gap.within,
            "random_return": self.chance.mean,
            "model_free_return": self.without_model.mean,
            "online_model_free_return": self.online.mean,
            "optimum": self.optimum,
            "dropped": self.episodes.dropped,
            **({} if self.exact is None else asdict(self.exact)),
        }

    @classmethod
    def over_runs(cls, played: Mapping[str, PlayResult]) -> WorldComparison:
        """Several world models, each compared with Q-learning on its own steps."""
        return WorldComparison({name: each.to_json() for name, each in played.items()})

    def facts(self) -> dict[str, str]:
        """The score, what the model imagines, chance, Q-learning, the optimum."""
        cost = counted(self.taken, "environment step")
        fresh = counted(self.score.episodes, "fresh episode")
        rows = {
            "environment": self.training.name,
            "score": f"{self.score}  mean return of {fresh}, learned with {cost}",
            "imagined": f"{self.imagined}  what the model says the same policy earns",
            "imagined less real": f"{self.gap}  95 % interval, "
            + ("which covers 0" if self.gap.covers_zero else "which does not cover 0"),
            "random": f"{self.chance}",
            "without the model": f"{self.without_model}  Q-learning on the same {cost}",
            "online": f"{self.online}  Q-learning on as many steps of its own",
        }
        if self.exact is not None:
            rows["by the true table"] = (
                f"{self.exact.exact_return:.4f}  expected, Q-learning {self.exact.model_free_exact_return:.4f}, "
                f"online {self.exact.online_model_free_exact_return:.4f}"
            )
        if self.optimum is not None:
            rows["optimum"] = f"{self.optimum:.3f}"
        if self.episodes.dropped:
            rows["dropped"] = f"{counted(self.episodes.dropped, 'episode')} that broke"
        return rows

    def render(self, suffix: str) -> bytes:
        """The first real episode beside the imagined one, as a film (".gif") or a strip (".png")."""
        from headway.plots.worlds import comparison_gif, comparison_strip
        from headway.tasks.world_model.render import imagined_frames, real_frames

        real = real_frames(self.training, self.episodes)
        imagined = imagined_frames(self.model, self.training, self.rollout)
        return (comparison_gif if suffix == ".gif" else comparison_strip)(real, imagined)


def play_report(model: World, task: WorldTraining, device: torch.device, *, episodes: int, seed: int) -> PlayReport:
    """Play episodes with fresh seeds, the same ones for every policy."""
    limit, actions = task.make().limit, task.make().actions
    real = play(task.make, learned(model, device), fresh_seeds(episodes, seed))
    chance = play(task.make, at_random(actions, seed), fresh_seeds(episodes, seed))
    free, online = offline_baseline(model, task, device), online_baseline(model, task, device)
    rollout = imagined(model, real, device, limit)
    return PlayReport(
        model=model,
        training=task,
        episodes=real,
        rollout=rollout,
        taken=task.taken,
        score=ReturnStatistics.of(real.returns),
        imagined=ReturnStatistics.of(rollout.returns.cpu().numpy()),
        chance=ReturnStatistics.of(chance.returns),
        without_model=ReturnStatistics.of(play(task.make, free, fresh_seeds(episodes, seed)).returns),
        online=ReturnStatistics.of(play(task.make, online, fresh_seeds(episodes, seed)).returns),
        optimum=OPTIMUM.get(task.name),
        exact=_exact(model, task, free, online, device),
    )


def _exact(
    model: World, task: WorldTraining, free: Policy, online: Policy, device: torch.device
) -> ExactReturns | None:
    tabular = TabularPolicies.of(model, task)
    if tabular is None:
        return None
    ours = learned(model, device)
    return ExactReturns(
        exact_return=tabular.exact_return(ours),
        model_free_exact_return=tabular.exact_return(free),
        online_model_free_exact_return=tabular.exact_return(online),
        imagined_data_error=tabular.data_error(ours),
    )
