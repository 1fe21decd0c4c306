"""Object detection: which objects are in an image, and where."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from headway.config import positive
from headway.errors import ConfigError
from headway.tasks.base import DataRequest, Pipeline, Prepared, Task

if TYPE_CHECKING:
    from headway.models import ModelConfig
    from headway.tasks.proposal import Proposal
    from headway.tasks.training_task import TrainingTask


@dataclass(frozen=True, slots=True, kw_only=True)
class Detection(Task):
    """Images of one size with any number of objects, each with a class and a box."""

    name: ClassVar[str] = "detection"
    title: ClassVar[str] = "object detector"
    unit: ClassVar[str] = "images"
    batch_unit: ClassVar[str] = "images"
    loss_unit: ClassVar[str] = "weighted loss"
    has_tokenizer: ClassVar[bool] = False
    models: ClassVar[tuple[str, ...]] = ("detr",)
    from_source: ClassVar[tuple[str, ...]] = ("size",)

    size: int = 64  # pixels a side: the longer side is resized to it, the rest is grey
    class_weight: float = 1.0  # of the cross-entropy, and of a class's probability in matching
    distance_weight: float = 5.0  # of the L1 distance of two boxes, as shares of the image
    overlap_weight: float = 2.0  # of generalised intersection over union
    nothing_weight: float = 0.1  # of "no object" beside the other classes in the cross-entropy
    patch_weight: float = 1.0  # of a further loss, on what the heads say of each patch of the encoder; 0: none
    auxiliary: bool = True  # a loss on the output of each layer of the decoder, not only of the last

    def __post_init__(self) -> None:
        positive("task.size", self.size)
        for name in ("class_weight", "distance_weight", "overlap_weight", "nothing_weight", "patch_weight"):
            if not 0 <= getattr(self, name) < float("inf"):
                raise ConfigError(f"task.{name}={getattr(self, name)}, allowed: 0 and above")

    @property
    def image(self) -> tuple[int, int]:
        """Height and width."""
        return self.size, self.size

    @classmethod
    def recognise(cls, spec: str, given: Mapping[str, str]) -> Proposal | None:
        """What to train on a data set that is of this task."""
        from headway.tasks.detection.recognise import recognise

        return recognise(spec)

    def prepare(self, request: DataRequest) -> Prepared:
        """Read images with the classes and boxes of their objects."""
        from headway.tasks.detection.data import prepare

        return prepare(self, request)

    def read(self, request: DataRequest) -> TrainingTask:
        """The run's own splits again, or other data, of which nothing is held out."""
        from headway.tasks.detection.data import read

        return read(self, request)

    @classmethod
    def pipeline_class(cls) -> type[Pipeline]:
        """Imported when it is asked for."""
        from headway.tasks.detection.pipeline import DetectionPipeline

        return DetectionPipeline

    def implied(self, model: ModelConfig, changes: Mapping[str, object]) -> dict[str, object]:
        """The image size of the task is that of the model."""
        from headway.tasks.image_batches import one_image_size

        return one_image_size(model, changes)

    def check_model(self, model: ModelConfig) -> None:
        """Raise ConfigError for a model that is not a detector, or reads images of another size."""
        super(Detection, self).check_model(model)  # with slots, a dataclass is another class than its body's
        if getattr(model, "size", None) != self.image:
            image = getattr(model, "image", None)
            raise ConfigError(f"task.size={self.size}, model.image={image}: expected the same")

    def sized_by_data(self, model: ModelConfig) -> tuple[str, ...]:
        """The number of classes."""
        return ("classes",)
