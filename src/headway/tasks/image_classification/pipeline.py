"""A finished classifier of images or sounds at work: it classifies, is evaluated and explained."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from headway.decoding.non_finite import numbered
from headway.errors import ConfigError
from headway.tasks.base import EvaluateRequest, Pipeline, RunParts, Task, split_of
from headway.tasks.capabilities import Classifies
from headway.tasks.classifier import Prediction, likeliest
from headway.tasks.image_batches import read_files
from headway.tasks.image_classification.config import Classification
from headway.tasks.image_classification.training import EVALUATED, logits_of

if TYPE_CHECKING:
    from headway.data.image_decoding import Pixels
    from headway.models import ModelConfig
    from headway.tasks.explanation import Explanation
    from headway.tasks.export_request import ExportRequest
    from headway.tasks.image_classification.patches import ImagePatches
    from headway.tasks.image_classification.training import ClassificationTraining
    from headway.tasks.report import Report
    from headway.tasks.verification_inputs import VerificationInputs


class ImagePipeline(Pipeline, Classifies):
    """Image or sound files in, classes out."""

    reads_files = True

    evaluate_options = frozenset({"out", "plot"})

    def __init__(self, task: Task, parts: RunParts) -> None:
        super().__init__(task, parts)
        assert isinstance(task, Classification)
        self.config, self.classes = task, parts.data.classes

    def pixels(self, files: Sequence[str | Path]) -> list[Pixels]:
        """Each image or sound file as the model reads it (C, H, W). Raises DataError naming one that is unreadable."""
        return read_files(files, self.config.size, None if self.config.sound is None else self.config.sound.decode)

    @torch.no_grad()
    def classify(self, inputs: Sequence[str | Path], *, top: int = 5) -> list[Prediction]:
        """The `top` likeliest classes of each file."""
        pixels = self.pixels(inputs)
        found: list[Prediction] = []
        for first in range(0, len(pixels), EVALUATED):
            block = pixels[first : first + EVALUATED]
            with numbered(range(first, len(pixels))):
                named = likeliest(self.logits(np.stack(block)).softmax(-1), self.classes, top)
            files = map(str, inputs[first : first + EVALUATED])
            found += [Prediction(*each) for each in zip(files, named, block, strict=True)]
        return found

    def logits(self, pixels: Pixels) -> Tensor:
        """Images (B, C, H, W) -> logits (B, classes)."""
        return logits_of(self.model, self.device, torch.from_numpy(pixels), self.config)

    @property
    def cuts_patches(self) -> bool:
        """Whether the model is a vision transformer, which reads an image as patches."""
        return hasattr(self.parts.config, "patch")

    def patches(self, pixels: Pixels) -> ImagePatches:
        """The patches that the model reads an image (C, H, W) as. Raises ConfigError where it reads none."""
        from headway.tasks.image_classification.patches import image_patches

        if not self.cuts_patches:
            return super().patches(pixels)
        config: Any = self.parts.config
        return image_patches(pixels, config.patch, config.patches, self.config.mean)

    def evaluate(self, request: EvaluateRequest) -> Report:
        """Accuracy with its interval, by class, and which classes are mistaken for which."""
        from headway.tasks.classifier_report import classifier_report

        training: ClassificationTraining = self.read(request.data)  # type: ignore[assignment]
        return classifier_report(self, training, split_of(training.splits, request.split))

    @classmethod
    def can(cls, model: ModelConfig | None = None) -> tuple[str, ...]:
        """Without `look` for a model that does not read an image as patches: it has no attention."""
        verbs = super().can(model)
        return verbs if model is None or hasattr(model, "patch") else tuple(verb for verb in verbs if verb != "look")

    def verification(self, given: Sequence[str]) -> VerificationInputs:
        """Images, or sounds as such, whose class is predicted: these files, else some of the data's and noise."""
        from headway.data.datasets import sample_images
        from headway.errors import HeadwayError
        from headway.tasks.verification_inputs import (
            MAX_GIVEN,
            VERIFICATION,
            VerificationInputs,
            class_names,
            image_examples,
            missing_data,
            noise_images,
            normalised_images,
        )

        sizes = self.parts.inputs or VERIFICATION
        task, data, model = self.config, self.parts.data, self.parts.config
        notes: list[str] = []
        images: list[torch.Tensor] = []
        if given:
            images = normalised_images(self.pixels(given[:MAX_GIVEN]), task.mean, task.std)
        elif data.spec and task.sound is None:
            try:
                some = sample_images(data.spec, data.classes, count=sizes.own, size=task.size)
                images = normalised_images(some, task.mean, task.std)
            except HeadwayError as error:
                notes.append(missing_data("images", error))
        if len(images) < 2 or not (given or sizes.passages):  # a batch of one has no other rows
            size = getattr(model, "size", (task.size, task.size))
            images += noise_images(model.channels, size)  # type: ignore[attr-defined]
        return VerificationInputs(
            examples=image_examples(images, self.device),
            pads=False,
            names="class",
            spell=class_names(data.classes),
            notes=tuple(notes),
        )

    def export_request(self) -> ExportRequest:
        """How pixels are scaled, and the names of the classes."""
        from headway.tasks.export_request import ExportRequest, ImageScaling

        images = ImageScaling(mean=self.config.mean, std=self.config.std)
        return ExportRequest(model=self.model, config=self.parts.config, images=images, classes=self.parts.data.classes)

    def explain(self, given: str) -> Explanation:
        """An image or a spectrogram as patches, and the class they amount to. Raises ConfigError without attention."""
        from headway.tasks.explanation import Explanation, ImageView, Output, StackDescription
        from headway.tasks.patch_sequence import PATCHES, PatchModel, patch_sequence

        model = self.model
        if not isinstance(model, PatchModel):
            raise ConfigError(f"{self.folder}: look needs attention; a {type(model).__name__} has no attention layers")
        (pixels,) = self.pixels([given])
        own = getattr(model, "class_token", None) is not None
        label = "Patches" if self.config.sound is None else "Patches of the spectrogram"
        return Explanation(
            kind="image" if self.config.sound is None else "sound",
            given=Path(given).name,
            forward=lambda: self.logits(np.stack([pixels])),
            said=lambda logits: likeliest(logits.softmax(-1), self.classes, 1)[0][0][0],
            reads={"": StackDescription(label="Encoder", sequence=PATCHES, positions=model.patch_positions)},
            sequences={PATCHES: patch_sequence(model.grid, own=own, label=label)},
            output=Output(
                name=lambda index: self.classes[index], label="What it is", sequence=None, targets=[None], unit="class"
            ),
            image=ImageView(pixels=pixels, sequence=PATCHES, mean=self.config.mean, rollout=True),
        )
