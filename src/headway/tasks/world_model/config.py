"""World models: collect episodes, learn the world from them, learn to act in imagined rollouts, and repeat."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from headway.config import not_negative, positive, probability
from headway.data.environments import Plain, View
from headway.errors import ConfigError, shown
from headway.tasks.base import DataRequest, Pipeline, Prepared, Task
from headway.tasks.world_model.learners import ActorCritic, Learner
from headway.tasks.world_model.schedule import Round

if TYPE_CHECKING:
    from headway.models import ModelConfig
    from headway.tasks.training_task import TrainingTask


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldModel(Task):
    """What is collected and how, how a round is spent, and how imagined rollouts go."""

    name: ClassVar[str] = "world"
    title: ClassVar[str] = "world model"
    unit: ClassVar[str] = "steps"
    main_phase: ClassVar[str | None] = "world"
    has_tokenizer: ClassVar[bool] = False
    takes_budget: ClassVar[bool] = False  # its steps follow from `collect` and `round`
    aliases: ClassVar[tuple[str, ...]] = ("world-model",)
    models: ClassVar[tuple[str, ...]] = ("world",)

    view: View = Plain()  # how the environment is observed
    collect: tuple[int, ...] = (5000, 5000)  # environment steps of each round, at random in the first
    round: Round = Round()  # training steps of each phase of a round
    learner: Learner = ActorCritic()  # how the policy is learned from the model
    explore: float = 0.0  # share of actions at random when the policy collects
    length: int = 16  # steps of a training window
    windows: Literal["drawn", "distinct"] = (
        "drawn"  # of a training step of the model: some, at random; `distinct`: all, equal ones merged and weighted
    )
    dreams: int = 512  # imagined rollouts in parallel
    horizon: int = 15  # steps of an imagined rollout
    context: int = 2  # real steps before a rollout, at most
    discount: float = 0.99  # γ: what a reward is worth one step later, at most 1
    trace: float = 0.95  # λ of the λ-returns
    entropy: float = 0.003  # weight of the policy's entropy in the actor's loss
    rare: float = 1.0  # weight of an episode's last step in the loss of the end, relative to other steps
    final_policy: Literal["newest", "tried"] = (
        "newest"  # `tried`: the best of those that collected, from the last round on
    )
    restart_policy: bool = False  # a round's policy begins anew, without habits from the model of the round before
    act_rate: float = 1.0  # the learning rate of actor and critic, as a share of the world's

    def __post_init__(self) -> None:
        for name in ("length", "dreams", "horizon"):
            positive(f"task.{name}", getattr(self, name))
        if not self.collect or min(self.collect) < 1:
            raise ConfigError(f"task.collect={shown(self.collect)}, allowed: one or more whole numbers from 1")
        for name in ("discount", "trace", "explore"):
            probability(f"task.{name}", getattr(self, name))
        for name in ("entropy", "rare", "act_rate"):
            not_negative(f"task.{name}", getattr(self, name))

    def prepare(self, request: DataRequest) -> Prepared:
        """Open the environment; episodes are collected into the run's folder while training goes on."""
        from headway.tasks.world_model.prepare import prepare

        return prepare(self, request)

    def read(self, request: DataRequest) -> TrainingTask:
        """The episodes that a finished run collected."""
        from headway.tasks.world_model.prepare import read

        return read(self, request)

    @classmethod
    def pipeline_class(cls) -> type[Pipeline]:
        """Imported when it is asked for."""
        from headway.tasks.world_model.pipeline import WorldPipeline

        return WorldPipeline

    def sized_by_data(self, model: ModelConfig) -> tuple[str, ...]:
        """What the environment shows, and the actions it takes."""
        return ("observation", "actions")
