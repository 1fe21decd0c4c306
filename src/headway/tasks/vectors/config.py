"""Sets and sequences of vectors: rows of numbers are the tokens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal, get_args

from headway.errors import ConfigError, shown
from headway.tasks.base import DataRequest, Pipeline, Prepared, Task

if TYPE_CHECKING:
    from headway.models import ModelConfig
    from headway.tasks.proposal import Proposal, Reading
    from headway.tasks.training_task import TrainingTask

Predicts = Literal["class", "number", "elements"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Vectors(Task):
    """Sets of vectors with a class or a number each, or with a class of each element."""

    name: ClassVar[str] = "vectors"
    title: ClassVar[str] = "vector model"
    unit: ClassVar[str] = "sets"
    batch_unit: ClassVar[str] = "elements"
    has_tokenizer: ClassVar[bool] = False
    models: ClassVar[tuple[str, ...]] = ("vector-transformer",)

    predicts: Predicts = "class"  # class: of a set; number: of a set; elements: a class of each element

    def __post_init__(self) -> None:
        if self.predicts not in get_args(Predicts):
            raise ConfigError(f"task.predicts={shown(self.predicts)}, allowed: {', '.join(get_args(Predicts))}")

    @classmethod
    def recognise(cls, spec: str, given: Mapping[str, str]) -> Proposal | None:
        """What to train on a data set that is of this task."""
        from headway.tasks.vectors.recognise import recognise

        return recognise(spec, given)

    @classmethod
    def reading(cls, spec: str, given: Mapping[str, str]) -> Reading:
        """The columns of a table, and what is predicted."""
        from headway.tasks.vectors.recognise import reading

        return reading(spec, given)

    def prepare(self, request: DataRequest) -> Prepared:
        """Read sets of vectors with their targets, and measure what standardises them."""
        from headway.tasks.vectors.data import prepare

        return prepare(self, request)

    def read(self, request: DataRequest) -> TrainingTask:
        """The data again; of other data than the run's own, all of a file."""
        from headway.tasks.vectors.data import read

        return read(self, request)

    @classmethod
    def pipeline_class(cls) -> type[Pipeline]:
        """Imported when it is asked for."""
        from headway.tasks.vectors.pipeline import VectorsPipeline

        return VectorsPipeline

    def check_model(self, model: ModelConfig) -> None:
        """Raise ConfigError for another model, or one whose pool does not fit what is predicted."""
        Task.check_model(self, model)
        by_element = getattr(model, "pool", None) is None
        if by_element != (self.predicts == "elements"):
            pool = "none" if self.predicts == "elements" else "query-pool or mean-pool"
            raise ConfigError(
                f"task.predicts={self.predicts} with model.pool={'none' if by_element else 'a pool'}, "
                f"allowed: {pool} (--model.pool)"
            )

    def sized_by_data(self, model: ModelConfig) -> tuple[str, ...]:
        """The features with their standardisation, and the outputs."""
        return ("features", "outputs", "mean", "deviation")
