"""Image and sound classification: which of several classes an image, or a sound as a spectrogram, belongs to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from headway.data.augment import Augmentation
from headway.data.spectrograms import Spectrogram
from headway.errors import ConfigError
from headway.tasks.base import DataRequest, Pipeline, Prepared, Task
from headway.tasks.image_batches import check_colours

if TYPE_CHECKING:
    from headway.models import ModelConfig
    from headway.tasks.proposal import Proposal
    from headway.tasks.training_task import TrainingTask


@dataclass(frozen=True, slots=True, kw_only=True)
class Classification(Task):
    """Square images of one size, or sounds as spectrograms of one size, each of one class."""

    name: ClassVar[str] = "classification"
    title: ClassVar[str] = "image classifier"
    unit: ClassVar[str] = "images"
    batch_unit: ClassVar[str] = "images"
    has_tokenizer: ClassVar[bool] = False
    from_source: ClassVar[tuple[str, ...]] = ("size", "mean", "std")

    size: int = 32  # pixels a side: the shorter side is resized to it, the centre cut out
    sound: Spectrogram | None = None  # the inputs are sounds, read as spectrograms of one channel
    augment: Augmentation | None = None  # random changes to training images; none: unchanged
    mean: tuple[float, ...] = (0.5, 0.5, 0.5)  # of each channel from 0 to 1, subtracted
    std: tuple[float, ...] = (0.5, 0.5, 0.5)  # and divided by

    def __post_init__(self) -> None:
        check_colours(self.size, self.mean, self.std, self.channels)
        if self.sound is not None and self.augment is not None:  # a flip would reverse time
            raise ConfigError("task.augment is for images, allowed with task.sound: none")

    @property
    def channels(self) -> int:
        """Of the model's input: three colours, or one of a spectrogram."""
        return 3 if self.sound is None else 1

    @classmethod
    def recognise(cls, spec: str, given: Mapping[str, str]) -> Proposal | None:
        """What to train on a data set that is of this task."""
        from headway.tasks.image_classification.recognise import recognise

        return recognise(spec)

    def prepare(self, request: DataRequest) -> Prepared:
        """Read images or sounds with their classes."""
        from headway.tasks.image_classification.data import prepare

        return prepare(self, request)

    def read(self, request: DataRequest) -> TrainingTask:
        """The run's own splits again, or all of other data as one split."""
        from headway.tasks.image_classification.data import read

        return read(self, request)

    def stand_in(self, request: DataRequest) -> TrainingTask:
        """Black images."""
        from headway.tasks.image_classification.data import stand_in

        return stand_in(self, request)

    @classmethod
    def pipeline_class(cls) -> type[Pipeline]:
        """Imported when it is asked for."""
        from headway.tasks.image_classification.pipeline import ImagePipeline

        return ImagePipeline

    def implied(self, model: ModelConfig, changes: Mapping[str, object]) -> dict[str, object]:
        """The image size of the task is that of the model."""
        from headway.tasks.image_batches import one_image_size

        return one_image_size(model, changes)

    def check_model(self, model: ModelConfig) -> None:
        """Raise ConfigError for a model that reads images of another size or with other channels."""
        if getattr(model, "size", (self.size, self.size)) != (self.size, self.size):  # a convolutional one reads any
            raise ConfigError(f"task.size={self.size}, model.image={getattr(model, 'image', None)}: expected the same")
        channels = getattr(model, "channels", self.channels)
        if channels != self.channels:
            kind = "images" if self.sound is None else "sounds"
            raise ConfigError(f"model.channels={channels}, allowed for {kind}: {self.channels}")

    def sized_by_data(self, model: ModelConfig) -> tuple[str, ...]:
        """The number of classes."""
        return ("classes",)
