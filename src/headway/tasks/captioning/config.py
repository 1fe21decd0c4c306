"""Captioning: a sentence about an image, token by token."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from headway.config import positive
from headway.data.augment import Augmentation
from headway.decoding.beam import Penalty, expect_length_penalty
from headway.errors import ConfigError
from headway.tasks.base import DataRequest, Pipeline, Prepared, Task
from headway.tasks.image_batches import check_colours

if TYPE_CHECKING:
    from headway.models import ModelConfig
    from headway.tasks.proposal import Proposal
    from headway.tasks.training_task import TrainingTask


@dataclass(frozen=True, slots=True, kw_only=True)
class Captioning(Task):
    """Square images of one size with sentences about each, and the default decoding settings of a finished model."""

    name: ClassVar[str] = "captioning"
    title: ClassVar[str] = "captioner"
    batch_unit: ClassVar[str] = "captions"
    from_source: ClassVar[tuple[str, ...]] = ("size", "mean", "std")

    size: int = 48  # pixels a side: the shorter side is resized to it, the centre cut out
    augment: Augmentation | None = None  # nothing that would make a caption untrue
    mean: tuple[float, ...] = (0.5, 0.5, 0.5)  # of red, green and blue from 0 to 1, subtracted
    std: tuple[float, ...] = (0.5, 0.5, 0.5)  # and divided by
    max_length: int = 50  # tokens of a caption, the stop token included; longer training captions are cut
    beam: int = 3  # hypotheses kept in beam search; 1 is greedy
    length_penalty: float = 0.6  # α: 0 ranks by log-probability alone, larger values favour longer captions
    penalty: Penalty = "gnmt"  # what a log-probability is divided by: gnmt ((5 + n)/6)^α, mean n^α

    def __post_init__(self) -> None:
        check_colours(self.size, self.mean, self.std)
        positive("task.max_length", self.max_length)
        positive("task.beam", self.beam)
        expect_length_penalty("task.length_penalty", self.length_penalty)
        if self.augment is not None and self.augment.mix:
            raise ConfigError(f"task.augment.mix={self.augment.mix}: two images mixed have no caption; allowed: 0")

    @classmethod
    def recognise(cls, spec: str, given: Mapping[str, str]) -> Proposal | None:
        """What to train on a data set that is of this task."""
        from headway.tasks.captioning.recognise import recognise

        return recognise(spec)

    def prepare(self, request: DataRequest) -> Prepared:
        """Read images with captions, train a tokenizer if the run has none."""
        from headway.tasks.captioning.data import prepare

        return prepare(self, request)

    def read(self, request: DataRequest) -> TrainingTask:
        """The run's own splits again, or all of other data as one split."""
        from headway.tasks.captioning.data import read

        return read(self, request)

    @classmethod
    def pipeline_class(cls) -> type[Pipeline]:
        """Imported when it is asked for."""
        from headway.tasks.captioning.pipeline import CaptioningPipeline

        return CaptioningPipeline

    def implied(self, model: ModelConfig, changes: Mapping[str, object]) -> dict[str, object]:
        """The image size of the task is that of the model."""
        from headway.tasks.image_batches import one_image_size

        return one_image_size(model, changes)

    def check_model(self, model: ModelConfig) -> None:
        """Raise ConfigError for a model that reads images of another size, or none."""
        image = getattr(model, "image", None)
        if image not in (self.size, (self.size, self.size)):
            raise ConfigError(f"task.size={self.size}, model.image={image}: expected the same")

    def sized_by_data(self, model: ModelConfig) -> tuple[str, ...]:
        """The vocabulary."""
        return ("vocab",)
