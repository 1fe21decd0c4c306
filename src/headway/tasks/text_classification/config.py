"""Text classification: whole texts or pairs of them, with a class, several classes, or a number each."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from headway.config import positive
from headway.errors import ConfigError, shown
from headway.tasks.base import DataRequest, Pipeline, Prepared, Task

if TYPE_CHECKING:
    from headway.models import ModelConfig
    from headway.tasks.proposal import Proposal, Reading


@dataclass(frozen=True, slots=True, kw_only=True)
class TextClassification(Task):
    """Texts, or pairs of texts, with labels; one that is too long is cut."""

    name: ClassVar[str] = "text-classification"
    title: ClassVar[str] = "text classifier"
    unit: ClassVar[str] = "texts"
    takes_pairs: ClassVar[bool] = True
    length_key: ClassVar[str] = "length"
    special_tokens: ClassVar[tuple[str, ...]] = ("pad", "start", "stop")

    length: int = 512  # tokens, the special ones included
    labels: Literal["single", "multi", "number"] = "single"  # a text's label: a class, any number of them, a number
    # what a class counts in the training loss: none; balanced, by how rare it is; or as given: good=1,bad=2.5
    class_weights: Literal["balanced"] | tuple[str, ...] | None = None
    threshold: float = 0.5  # of several labels: those at least this probable are predicted

    def __post_init__(self) -> None:
        positive("task.length", self.length, least=3)
        if not 0 < self.threshold < 1:
            raise ConfigError(f"task.threshold={self.threshold}, allowed: above 0 and below 1")
        if self.labels == "number" and self.class_weights is not None:
            raise ConfigError("task.class_weights with task.labels=number, allowed: none, as numbers have no classes")
        self.given_weights()

    def given_weights(self) -> dict[str, float]:
        """The weights that the config gives by the names of classes. Raises ConfigError for a wrong weight."""
        given = () if self.class_weights is None or self.class_weights == "balanced" else self.class_weights
        found: dict[str, float] = {}
        for each in given:
            name, sign, weight = each.rpartition("=")
            try:
                found[name] = float(weight) if sign else math.nan
            except ValueError:
                found[name] = math.nan
            if not (0 <= found[name] < math.inf):
                raise ConfigError(
                    f"task.class_weights={shown(each)}, allowed: none, balanced, or weights by name: good=1,bad=2"
                )
        return found

    @property
    def loss_unit(self) -> str:  # type: ignore[override]  # of one run, by its labels
        """Nats, or squared error in units of the labels' variance."""
        return "squared error / variance" if self.labels == "number" else "nats"

    @classmethod
    def recognise(cls, spec: str, given: Mapping[str, str]) -> Proposal | None:
        """What to train on a data set that is of this task."""
        from headway.tasks.text_classification.recognise import recognise

        return recognise(spec, given)

    @classmethod
    def reading(cls, spec: str, given: Mapping[str, str]) -> Reading:
        """The columns of a table, and what kind of label it has."""
        from headway.tasks.text_classification.recognise import reading

        return reading(spec, given)

    def prepare(self, request: DataRequest) -> Prepared:
        """Read texts with their labels, train a tokenizer if the run has none, encode."""
        from headway.tasks.text_classification.data import prepare

        return prepare(self, request)

    @classmethod
    def pipeline_class(cls) -> type[Pipeline]:
        """Imported when it is asked for."""
        from headway.tasks.text_classification.pipeline import TextClassificationPipeline

        return TextClassificationPipeline

    def check_model(self, model: ModelConfig) -> None:
        """Raise ConfigError for a model that has fewer positions than a text may have tokens."""
        Task.check_model(self, model)
        self.expect_positions(model)

    def sized_by_data(self, model: ModelConfig) -> tuple[str, ...]:
        """The vocabulary, the classes, and the mean and deviation of numbers."""
        own = ("classes", "centre", "scale")
        return own if model.text is None else (model.text.vocab_key, *own)
