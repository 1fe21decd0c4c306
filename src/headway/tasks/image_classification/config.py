"""Image and sound classification: which of several classes an image, or a sound as a spectrogram, belongs to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from headway.counts import counted
from headway.data.augment import Augmentation
from headway.data.spectrograms import Spectrogram
from headway.errors import ConfigError
from headway.tasks.base import DataRequest, FinetuneSource, Pipeline, Prepared, Task
from headway.tasks.image_batches import check_colours

if TYPE_CHECKING:
    from torch import Tensor, nn

    from headway.data.config import DataConfig
    from headway.models import ModelConfig
    from headway.tasks.proposal import Proposal
    from headway.tasks.training_task import TrainingTask

HEAD = "head."  # weights that belong to the classes
NO_VIT = "--init begins with a vision transformer"


@dataclass(frozen=True, slots=True, kw_only=True)
class Classification(Task):
    """Square images of one size, or sounds as spectrograms of one size, each of one class."""

    name: ClassVar[str] = "classification"
    title: ClassVar[str] = "image classifier"
    unit: ClassVar[str] = "images"
    batch_unit: ClassVar[str] = "images"
    has_tokenizer: ClassVar[bool] = False

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

    def finetuned(
        self, model: ModelConfig, source: Task, source_model: ModelConfig, folder: str
    ) -> tuple[Task, ModelConfig]:
        """This recipe with another run's vision transformer, which reads images as that run does."""
        for name, config in (("the preset", model), (folder, source_model)):
            if not hasattr(config, "fit_weights"):
                kind = type(config).__name__.removesuffix("Config")
                raise ConfigError(f"{NO_VIT}, {name} has a model of kind {kind}")
        assert isinstance(source, Classification)
        return replace(self, size=source.size, mean=source.mean, std=source.std), source_model

    def initial_weights(
        self, model: nn.Module, config: ModelConfig, data: DataConfig, source: FinetuneSource
    ) -> tuple[Mapping[str, Tensor], str]:
        """The source run's weights, positions resized to this image size; a new head for other classes."""
        before: Any = source.model
        after: Any = config
        if not (hasattr(before, "fit_weights") and hasattr(after, "fit_weights")):
            raise ConfigError(f"{NO_VIT}, {source.folder} has another model")
        weights: dict[str, Tensor] = after.fit_weights(source.weights, before)
        kept = source.data.classes == data.classes and before.classes == after.classes
        if not kept:
            weights |= {name: tensor for name, tensor in model.state_dict().items() if name.startswith(HEAD)}
        head = "with its head" if kept else f"with a new head for {counted(after.classes, 'class', 'classes')}"
        resized = f", positions resized from {before.grid} to {after.grid} patches"
        return weights, head if before.grid == after.grid else head + resized
