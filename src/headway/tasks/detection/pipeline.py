"""A finished detector at work: it finds objects, is evaluated and explained."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headway.data.boxes import letterboxed
from headway.data.files import read_bytes
from headway.data.image_decoding import Pixels
from headway.decoding.non_finite import expect_finite, numbered
from headway.errors import ConfigError
from headway.tasks.base import EvaluateRequest, Pipeline, RunParts, Task, split_of
from headway.tasks.capabilities import Detects
from headway.tasks.detection.config import Detection
from headway.tasks.detection.training import MEAN, STD, SURE, found_boxes, outputs_of

if TYPE_CHECKING:
    from headway.tasks.detection.training import DetectionTraining
    from headway.tasks.explanation import Explanation
    from headway.tasks.report import Report
    from headway.tasks.verification_inputs import VerificationInputs

QUERIES = "queries"
NOTHING = "no object"
MEANING = {
    "ap": "the mean over thresholds of .50 to .95",
    "ap_small": "of objects up to 32² pixels",
    "ap_medium": "from 32² to 96² pixels",
    "ap_large": "of larger ones",
    "ar1": "recall of one detection of an image and class",
    "ar10": "of ten",
    "ar100": "of a hundred",
}


@dataclass(frozen=True, slots=True)
class DetectedObjects:
    """The objects found in an image, the surest first.

    Boxes (P, 4) are x, y, width, height in pixels of the file's image, of `size` (width, height); classes are names,
    scores (P,) probabilities.
    """

    image: str
    size: tuple[int, int]
    classes: tuple[str, ...]
    scores: NDArray[np.float64]
    boxes: NDArray[np.float64]

    def to_json(self) -> dict[str, Any]:
        """What `headway detect --json` prints of an image."""
        found = zip(self.classes, self.scores.tolist(), self.boxes.tolist(), strict=True)
        objects = [{"class": name, "score": score, "box": box} for name, score, box in found]  # x, y, width, height
        return {"image": self.image, "width": self.size[0], "height": self.size[1], "objects": objects}


class DetectionPipeline(Pipeline, Detects):
    """Image files in, classes and boxes out."""

    reads_files = True
    no_export = (
        "DetrForObjectDetection of transformers has a ResNet, norms after each part, positions added to queries and "
        "keys in every attention, and boxes without anchors"
    )
    evaluate_options = frozenset({"plot", "out"})

    def __init__(self, task: Task, parts: RunParts) -> None:
        super().__init__(task, parts)
        assert isinstance(task, Detection)
        self.config = task

    @property
    def classes(self) -> tuple[str, ...]:
        """The names of the classes, or numbers where they are not known."""
        count = int(cast(Any, self.model).classes)
        known = self.parts.data.classes
        return known if len(known) == count else tuple(map(str, range(count)))

    @torch.no_grad()
    def detect(self, images: Sequence[str | Path], *, threshold: float = 0.5) -> list[DetectedObjects]:
        """The objects in each image file with a score of at least `threshold`, the surest first."""
        if not 0.0 <= threshold <= 1.0:
            raise ConfigError(f"threshold={threshold}, allowed: 0 to 1")
        found: list[DetectedObjects] = []
        for number, file in enumerate(images):
            pixels, size, scale = self._letterboxed(file)
            with numbered([number], "image"):
                logits, boxes = self._outputs(pixels)
            (best,) = found_boxes(logits, boxes, np.array([self.config.size / scale]))
            sure = best.scores >= threshold
            names = tuple(self.classes[label] for label in best.classes[sure])
            found.append(DetectedObjects(str(file), size, names, best.scores[sure], _cut(best.boxes[sure], size)))
        return found

    def _letterboxed(self, file: str | Path) -> tuple[Pixels, tuple[int, int], float]:
        with warnings.catch_warnings():  # Pillow warns about what is checked
            warnings.simplefilter("ignore")
            return letterboxed(read_bytes(Path(file)), str(file), self.config.size)

    def _outputs(self, pixels: Pixels) -> tuple[Tensor, Tensor]:
        """An image (3, S, S) -> logits (1, N, classes + 1) and boxes (1, N, 4). Raises NonFiniteOutputError."""
        logits, boxes = outputs_of(self.model, self.device, torch.from_numpy(pixels.copy())[None])
        expect_finite(torch.cat([logits, boxes], -1), "image")
        return logits, boxes

    def evaluate(self, request: EvaluateRequest) -> Report:
        """COCO's average precision and recall, of all classes and of each, and the loss."""
        from headway.plots.detections import plot_precision
        from headway.tasks.report import NONE, Facts, Figures, Report

        training: DetectionTraining = self.read(request.data)  # type: ignore[assignment]
        split = split_of(training.splits, request.split)
        predictions = training.predictions(self.model, self.device, split)
        report = training.report(predictions, split)
        values = report.to_json()

        def written(value: float | None) -> str:
            return f"{value:,}" if isinstance(value, int) else NONE if value is None else f"{value:.4f}"

        rows = {
            name: written(value) + (f"  {MEANING[name]}" if name in MEANING else "") for name, value in values.items()
        }
        by_class = dict(zip(training.classes, report.by_class, strict=True))
        counts = np.bincount(training.splits[split].classes, minlength=len(training.classes))
        values = {**values, "ap_by_class": by_class, "loss": predictions.loss / len(training.splits[split])}
        classes = Figures(
            ["class", "ap", "objects"],
            [[name, written(by_class[name]), f"{int(n):,}"] for name, n in zip(by_class, counts, strict=True)],
            title="by class",
        )
        return Report(
            split=split,
            values=values,
            sections=[Facts(rows), classes],
            plot=lambda title: plot_precision(report, training.classes, title),
            outputs=[_line(each, training.classes) for each in predictions.found],
        )

    def verification(self, given: Sequence[str]) -> VerificationInputs:
        """Images, in which each query gives the logits of its classes and a box: all are compared."""
        from headway.tasks.verification_inputs import (
            MAX_GIVEN,
            VerificationInputs,
            image_examples,
            noise_images,
            normalised_images,
        )

        config = cast(Any, self.parts.config)
        images = normalised_images([self._letterboxed(file)[0] for file in given[:MAX_GIVEN]], MEAN, STD)
        if len(images) < 2:
            images += noise_images(config.channels, self.config.image)
        examples = image_examples(images, self.device, places=config.queries)
        return VerificationInputs(examples=examples, pads=False, names=None)

    def explain(self, given: str) -> Explanation:
        """An image as patches, the queries of the decoder, and the class that each of them finds."""
        from headway.tasks.explanation import Explanation, ImageView, Output, StackDescription
        from headway.tasks.patch_sequence import PATCHES, PatchModel, patch_sequence

        model, names = self.model, (*self.classes, NOTHING)
        assert isinstance(model, PatchModel)
        pixels, _, _ = self._letterboxed(given)
        count = int(cast(Any, self.model).count)
        with torch.no_grad():
            likeliest = self._outputs(pixels)[0][0].argmax(-1).tolist()
        queries = {
            "label": "Queries",
            "tokens": [f"query {n + 1}" for n in range(count)],
            "writes": [names[label] for label in likeliest],  # what each finds, beside where it attended
            "start": next((n for n, label in enumerate(likeliest) if names[label] != NOTHING), 0),
        }
        decoder = StackDescription(label="Decoder", sequence=QUERIES, memory=PATCHES)

        def said(logits: Tensor) -> str:
            scores, labels = logits.softmax(-1)[:, :-1].max(-1)
            found = [f"{names[int(label)]} {float(score):.2f}" for score, label in zip(scores, labels, strict=True)
                     if score >= SURE]  # fmt: skip
            return ", ".join(found) or NOTHING

        return Explanation(
            kind="detection",
            given=Path(given).name,
            said=said,
            forward=lambda: self._outputs(pixels)[0][0],
            reads={
                "encoder": StackDescription(label="Encoder", sequence=PATCHES, positions=model.patch_positions),
                "decoder": decoder,
            },
            sequences={PATCHES: patch_sequence(model.grid, own=False, label="Patches"), QUERIES: queries},
            output=Output(
                name=lambda index: names[index],
                label="What each query finds",
                sequence=QUERIES,
                targets=[None] * count,
                unit="class",
            ),
            image=ImageView(pixels=pixels, sequence=PATCHES, mean=MEAN),
        )


def _cut(boxes: NDArray[np.float64], size: tuple[int, int]) -> NDArray[np.float64]:
    """Boxes (P, 4) as x, y, width, height, cut to an image of this width and height."""
    low = np.clip(boxes[:, :2], 0, size)
    high = np.clip(boxes[:, :2] + boxes[:, 2:], 0, size)
    return np.concatenate([low, high - low], 1)


def _line(found: Any, classes: tuple[str, ...]) -> str:
    """The detections of an image from `SURE` on, as `headway detect` writes them."""
    return "\t".join(
        described(classes[label], score, box)
        for label, score, box in zip(found.classes, found.scores, found.boxes, strict=True)
        if score >= SURE
    )


def described(name: str, score: float, box: NDArray[np.float64]) -> str:
    """An object in a line: its class, its score, and its box as x, y, width, height."""
    return f"{name} {score:.3f} {' '.join(f'{part:.1f}' for part in box)}"
