"""Decision Transformer: predict the actions that led to a return, given that return (Chen et al. 2021)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from headway.config import positive
from headway.data.environments import Plain, View
from headway.errors import ConfigError, shown
from headway.tasks.base import DataRequest, Pipeline, Prepared, Task
from headway.tasks.decision_transformer.imitation import AllEpisodes, Imitation

if TYPE_CHECKING:
    from headway.models import ModelConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class Deciding(Task):
    """How the log is made if none is given, what of it is imitated, and which returns a finished run is asked for."""

    name: ClassVar[str] = "deciding"
    title: ClassVar[str] = "decision transformer"
    unit: ClassVar[str] = "steps"
    main_phase: ClassVar[str | None] = "decide"
    has_tokenizer: ClassVar[bool] = False
    models: ClassVar[tuple[str, ...]] = ("decision",)

    view: View = Plain()  # how the environment is observed
    log: int = 30000  # environment steps, each episode by another policy drawn at random
    noise: float = 0.3  # an episode's actions are chance up to this share
    imitate: Imitation = AllEpisodes()  # which logged episodes, and whether their returns are known
    targets: tuple[float, ...] = (25.0, 75.0, 150.0, 300.0, 500.0)  # returns that a finished run is asked to reach
    temperature: float = 0.0  # actions are drawn from the softmax of logits over this; 0 takes the likeliest

    def __post_init__(self) -> None:
        positive("task.log", self.log)
        if not 0.0 <= self.noise <= 1.0:
            raise ConfigError(f"task.noise={self.noise}, allowed: 0 to 1")
        if not 0.0 <= self.temperature < float("inf"):
            raise ConfigError(f"task.temperature={self.temperature}, allowed: 0 and above")
        if len(self.targets) < 2:
            raise ConfigError(f"task.targets={shown(self.targets)}, allowed: two or more returns")

    def prepare(self, request: DataRequest) -> Prepared:
        """Read the log; make it first if the run has none."""
        from headway.tasks.decision_transformer.data import prepare

        return prepare(self, request)

    @classmethod
    def pipeline_class(cls) -> type[Pipeline]:
        """Imported when it is asked for."""
        from headway.tasks.decision_transformer.pipeline import DecisionPipeline

        return DecisionPipeline

    def sized_by_data(self, model: ModelConfig) -> tuple[str, ...]:
        """What the environment shows, and the actions it takes."""
        return ("observation", "actions")
