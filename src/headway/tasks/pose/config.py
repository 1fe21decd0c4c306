"""Pose estimation: where the keypoints of the one person in an image are."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class PoseEstimation(Task):
    """Square images of one size with one person each."""

    name: ClassVar[str] = "pose"
    aliases: ClassVar[tuple[str, ...]] = ("pose-estimation",)
    title: ClassVar[str] = "pose model"
    unit: ClassVar[str] = "images"
    batch_unit: ClassVar[str] = "images"
    loss_unit: ClassVar[str] = "squared error"
    has_tokenizer: ClassVar[bool] = False
    from_source: ClassVar[tuple[str, ...]] = ("size",)

    size: int = 64  # pixels a side: the shorter side is resized to it, the centre cut out
    spread: float = 1.5  # standard deviation of the Gaussian around a keypoint, in cells of its heat map

    def __post_init__(self) -> None:
        positive("task.size", self.size)
        if self.spread <= 0:
            raise ConfigError(f"task.spread={self.spread}, allowed: above 0")

    @property
    def image(self) -> tuple[int, int]:
        """Height and width."""
        return self.size, self.size

    @classmethod
    def recognise(cls, spec: str, given: Mapping[str, str]) -> Proposal | None:
        """What to train on a data set that is of this task."""
        from headway.tasks.pose.recognise import recognise

        return recognise(spec)

    def prepare(self, request: DataRequest) -> Prepared:
        """Read images with the keypoints of a person each."""
        from headway.tasks.pose.data import prepare

        return prepare(self, request)

    @classmethod
    def pipeline_class(cls) -> type[Pipeline]:
        """Imported when it is asked for."""
        from headway.tasks.pose.pipeline import PosePipeline

        return PosePipeline

    def implied(self, model: ModelConfig, changes: Mapping[str, object]) -> dict[str, object]:
        """The image size of the task is that of the model."""
        from headway.tasks.image_batches import one_image_size

        return one_image_size(model, changes)

    def check_model(self, model: ModelConfig) -> None:
        """Raise ConfigError for a model without keypoints, or one that reads images of another size."""
        if not hasattr(model, "keypoints") or getattr(model, "size", None) != self.image:
            image = getattr(model, "image", None)
            raise ConfigError(f"task.size={self.size}, model.image={image}: expected the same, in a pose model")
