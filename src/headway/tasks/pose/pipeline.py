"""A finished pose model at work: it finds keypoints, is evaluated and explained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headway.data.heatmaps import TINY, keypoints_of
from headway.data.image_decoding import Pixels
from headway.data.synthetic.stick_figures import KEYPOINTS
from headway.decoding.non_finite import expect_finite, numbered
from headway.tasks.base import EvaluateRequest, Pipeline, RunParts, Task, split_of
from headway.tasks.capabilities import EstimatesPose
from headway.tasks.image_batches import read_files
from headway.tasks.pose.config import PoseEstimation
from headway.tasks.pose.training import MEAN, STD, maps_of

if TYPE_CHECKING:
    from headway.tasks.explanation import Explanation
    from headway.tasks.pose.training import PoseTraining
    from headway.tasks.report import Report
    from headway.tasks.verification_inputs import VerificationInputs

KEYPOINT_SEQUENCE = "keypoints"
MEANING = {
    "oks_ap": "the mean over thresholds of .50 to .95",
    "oks_ap_medium": "of people from 32² to 96² pixels",
    "oks_ap_large": "of larger ones",
    "mean_oks": "the similarity itself",
}


@dataclass(frozen=True, slots=True)
class EstimatedPose:
    """An image as the model read it (3, S, S), and its keypoints (K, 3): x and y in its pixels, the heat there."""

    image: str
    pixels: Pixels
    keypoints: NDArray[np.float32]

    def to_json(self, names: Sequence[str]) -> dict[str, Any]:
        """What `headway pose --json` prints of an image, with the names of the keypoints."""
        return {
            "image": self.image,
            "size": self.pixels.shape[-1],
            "keypoints": dict(zip(names, self.keypoints.tolist(), strict=True)),  # x, y, the heat there
        }


class PosePipeline(Pipeline, EstimatesPose):
    """Image files in, keypoints out."""

    reads_files = True

    def __init__(self, task: Task, parts: RunParts) -> None:
        super().__init__(task, parts)
        assert isinstance(task, PoseEstimation)
        self.config = task

    @property
    def keypoint_names(self) -> tuple[str, ...]:
        """COCO's names where the model has COCO's 17 keypoints, else numbers."""
        count = int(getattr(self.parts.config, "keypoints", len(KEYPOINTS)))
        return KEYPOINTS if count == len(KEYPOINTS) else tuple(map(str, range(count)))

    @torch.no_grad()
    def pose(self, images: Sequence[str | Path]) -> list[EstimatedPose]:
        """The keypoints of the person in each image file."""
        found: list[EstimatedPose] = []
        for number, (file, pixels) in enumerate(zip(images, read_files(images, self.config.size), strict=True)):
            with numbered([number], "image"):
                places, heights = keypoints_of(self.heat_maps(pixels), image=self.config.image)
                expect_finite(heights)
            keypoints = torch.cat([places[0], heights[0, :, None]], 1).cpu().numpy()
            found.append(EstimatedPose(str(file), pixels, keypoints))
        return found

    def heat_maps(self, pixels: Pixels) -> Tensor:
        """An image (3, S, S) -> a heat map for each keypoint (1, K, rows, columns)."""
        return maps_of(self.model, self.device, torch.from_numpy(pixels.copy())[None])

    def evaluate(self, request: EvaluateRequest) -> Report:
        """COCO's average precision by object keypoint similarity, and the loss."""
        from headway.tasks.report import NONE, Facts, Report

        training: PoseTraining = self.read(request.data)  # type: ignore[assignment]
        split = split_of(training.splits, request.split)
        predictions = training.predictions(self.model, self.device, split)
        values = training.report(predictions, split).to_json()
        rows = {
            name: (f"{value:,}" if isinstance(value, int) else NONE if value is None else f"{value:.4f}")
            + (f"  {MEANING[name]}" if name in MEANING else "")
            for name, value in values.items()
        }
        values = {**values, "loss": predictions.loss / len(training.splits[split])}
        return Report(split=split, values=values, sections=[Facts(rows)])

    def verification(self, given: Sequence[str]) -> VerificationInputs:
        """Images, of which each keypoint gets a heat map: all cells are compared."""
        from headway.tasks.verification_inputs import (
            MAX_GIVEN,
            VerificationInputs,
            image_examples,
            noise_images,
            normalised_images,
        )

        images = normalised_images(read_files(given[:MAX_GIVEN], self.config.size), MEAN, STD) if given else []
        if len(images) < 2:
            images += noise_images(cast(Any, self.parts.config).channels, self.config.image)
        return VerificationInputs(examples=image_examples(images, self.device), pads=False, names=None)

    def explain(self, given: str) -> Explanation:
        """An image as patches, and for each keypoint the likeliest cells of its heat map.

        A heat map is read as shares of its heat: its logarithm stands for the logits.
        """
        from headway.tasks.explanation import Explanation, ImageView, Output, StackDescription
        from headway.tasks.patch_sequence import PATCHES, PatchModel, patch_sequence

        model, names = self.model, self.keypoint_names
        assert isinstance(model, PatchModel)
        (pixels,) = read_files([given], self.config.size)
        patches = patch_sequence(model.grid, own=False, label="Patches")
        patches["start"] = model.grid[0] // 2 * model.grid[1] + model.grid[1] // 2  # the middle, where the person is
        keypoints = {"label": "Keypoints", "tokens": list(names), "start": 0}
        label = "Where the keypoint is: the share of its heat map at each place (x,y) in pixels"
        return Explanation(
            kind="pose",
            given=Path(given).name,
            forward=lambda: self.heat_maps(pixels)[0].clamp(min=TINY).log().flatten(1),
            reads={"encoder": StackDescription(label="Encoder", sequence=PATCHES, positions=model.patch_positions)},
            sequences={PATCHES: patches, KEYPOINT_SEQUENCE: keypoints},
            output=Output(
                name=self._cell_name,
                label=label,
                sequence=KEYPOINT_SEQUENCE,
                targets=[None] * len(names),
                unit="place",
            ),
            image=ImageView(pixels=pixels, sequence=PATCHES, mean=MEAN, rollout=True),
        )

    def _cell_name(self, cell: int) -> str:
        """The centre of a heat map's cell in pixels: "(27,41)"."""
        rows, columns = self.model.map  # type: ignore[misc]
        x, y = (cell % columns + 0.5) * self.config.size / columns, (cell // columns + 0.5) * self.config.size / rows
        return f"({x:g},{y:g})"
