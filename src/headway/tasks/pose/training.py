"""Pose: where the keypoints of the one person in a picture are, by heat maps, judged by COCO's average precision."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from headway.config import positive
from headway.data.augment import constants
from headway.data.batching import Indices, Shuffled
from headway.data.config import DataConfig
from headway.data.datasets import load_poses
from headway.data.digests import check_digests
from headway.data.files import read_bytes
from headway.data.heatmaps import heatmaps, keypoints_of
from headway.data.image_decoding import EncodedImage, Pixels, decode_each
from headway.data.images import Progress
from headway.data.poses import Poses, PoseStore
from headway.errors import ConfigError, DataError
from headway.metrics.keypoints import Detections, KeypointReport, People, keypoint_report
from headway.tasks.training_task import Batch, Term, Validated

EVALUATED = 128  # pictures in one forward pass of an evaluation
MEAN = STD = (0.5, 0.5, 0.5)


@dataclass(frozen=True, slots=True, kw_only=True)
class PoseEstimation:
    """Square pictures of one size with one person each."""

    size: int = 64  # pixels a side: the shorter side is resized to it, the centre cut out
    spread: float = 1.5  # of the Gaussian around a keypoint, in cells of its heat map

    def __post_init__(self) -> None:
        positive("task.size", self.size)
        if self.spread <= 0:
            raise ConfigError(f"task.spread={self.spread}, allowed: above 0")

    @property
    def image(self) -> tuple[int, int]:
        """Height and width."""
        return self.size, self.size


@dataclass(frozen=True, slots=True)
class Posed:
    """Places (N, K, 2) in pixels, how high each map is there (N, K), and the summed squared error of the maps."""

    places: Tensor
    heights: Tensor
    loss: float


@dataclass(frozen=True, slots=True)
class Figure:
    """A picture as it was looked at (3, S, S), and its keypoints (K, 3): x, y in its pixels, the height of the map."""

    image: str
    pixels: Pixels
    keypoints: NDArray[np.float32]


class PoseTraining:
    """Batches of pictures with heat maps, and how near a model comes to their keypoints."""

    fixed_shapes = True

    def __init__(
        self, config: PoseEstimation, splits: Mapping[str, PoseStore], *, batch_tokens: int, seed: int
    ) -> None:
        self.config, self.splits = config, dict(splits)
        self.order = Shuffled(len(splits["train"]), batch_tokens, seed)

    def batch(self, indices: Indices) -> Batch:
        """Pictures (B, 3, S, S) as bytes and keypoints (B, K, 3)."""
        train = self.splits["train"]
        pixels, keypoints = torch.from_numpy(train.pixels[indices]), torch.from_numpy(train.keypoints[indices])
        return Batch((pixels,), keypoints, len(indices))

    def loss(self, model: nn.Module, batch: Batch, *, smoothing: float = 0.0, step: int = 0) -> dict[str, Term]:
        """The squared error of a cell, its mean over a map, summed over the keypoints that are labelled."""
        (images,) = batch.inputs
        assert images is not None
        maps = model(_normalised(images))
        return {"map": Term(self._errors(maps, batch.targets).sum(), batch.count)}

    def _errors(self, maps: Tensor, keypoints: Tensor) -> Tensor:
        """Of maps (B, K, rows, columns), a figure for each keypoint (B, K); 0 where it is not labelled."""
        size = (maps.shape[2], maps.shape[3])
        wanted = heatmaps(keypoints[:, :, :2], image=self.config.image, size=size, spread=self.config.spread)
        return (maps.float() - wanted).square().mean((2, 3)) * (keypoints[:, :, 2] > 0)

    def validate(self, model: nn.Module, device: torch.device) -> Validated:
        """The loss of a picture over the whole validation split, and the average precision."""
        posed = self.posed(model, device, "val")
        report = self.report(posed, "val")
        return Validated(posed.loss / len(self.splits["val"]), {"val_oks_ap": report.ap["all"] or 0.0})

    def evaluate(self, model: nn.Module, device: torch.device, split: str) -> KeypointReport:
        """Every picture of a split, once."""
        return self.report(self.posed(model, device, split), split)

    @torch.no_grad()
    def posed(self, model: nn.Module, device: torch.device, split: str) -> Posed:
        """What a model makes of a split."""
        if split not in self.splits:
            raise DataError(f"no split {split!r}, there are {', '.join(self.splits)}")
        store = self.splits[split]
        places: list[Tensor] = []
        heights: list[Tensor] = []
        loss = torch.zeros((), dtype=torch.float64, device=device)
        for at in range(0, len(store), EVALUATED):
            rows = slice(at, at + EVALUATED)
            maps = maps_of(model, device, torch.from_numpy(np.array(store.pixels[rows])))
            loss += self._errors(maps, torch.from_numpy(store.keypoints[rows]).to(device)).sum()
            for into, found in zip((places, heights), keypoints_of(maps, image=self.config.image), strict=True):
                into.append(found.cpu())
        return Posed(torch.cat(places), torch.cat(heights), float(loss))

    def report(self, posed: Posed, split: str) -> KeypointReport:
        """What places are worth; a person is as sure as its maps are high on average."""
        store = self.splits[split]
        places, scores = posed.places.double().numpy(), posed.heights.double().mean(1).numpy()
        keypoints, areas, boxes = (each.astype(np.float64) for each in (store.keypoints, store.areas, store.boxes))
        one = [slice(n, n + 1) for n in range(len(store))]
        return keypoint_report(
            [Detections(places=places[n], scores=scores[n]) for n in one],
            [People(keypoints=keypoints[n], areas=areas[n], boxes=boxes[n]) for n in one],
        )

    def samples(self, model: nn.Module, device: torch.device) -> list[str]:
        """How far off the keypoints of the validation split are."""
        store = self.splits["val"]
        away = torch.linalg.vector_norm(
            self.posed(model, device, "val").places - torch.from_numpy(store.keypoints[:, :, :2]), dim=-1
        )
        seen = torch.from_numpy(store.keypoints[:, :, 2] > 0)
        return [f"keypoints are off by {float(away[seen].mean()):.2f} pixels of {self.config.size}"]


def maps_of(model: nn.Module, device: torch.device, images: Tensor) -> Tensor:
    """Bytes (B, 3, S, S) -> heat maps (B, K, rows, columns) in float32, whatever the model computes in."""
    dtype = next((p.dtype for p in model.parameters() if p.is_floating_point()), torch.float32)
    maps: Tensor = model(_normalised(images.to(device)).to(dtype))
    return maps.float()


def _normalised(images: Tensor) -> Tensor:
    return constants(MEAN, STD, images.device).normalised(images)


@torch.no_grad()
def pose(model: nn.Module, device: torch.device, config: PoseEstimation, images: Iterable[str | Path]) -> list[Figure]:
    """The keypoints of the person in each file. Raises DataError naming a file that cannot be read as an image."""
    made: list[Figure] = []
    pictures = (EncodedImage(str(path), 0, read_bytes(Path(path))) for path in images)
    for picture, pixels in decode_each(pictures, config.size):
        if isinstance(pixels, DataError):
            raise pixels
        maps = maps_of(model, device, torch.from_numpy(pixels.copy())[None])
        places, heights = keypoints_of(maps, image=config.image)
        found = torch.cat([places[0], heights[0, :, None]], 1).cpu().numpy()
        made.append(Figure(picture.where, pixels, found))
    return made


def prepare_pose(
    config: PoseEstimation,
    data: DataConfig,
    *,
    batch_tokens: int,
    seed: int,
    expected: Mapping[str, str] | None = None,
    progress: Progress = lambda what, done, total: None,
) -> tuple[PoseTraining, Poses]:
    """People as a task, and the people themselves."""
    poses = load_poses(data.spec, config.size, Path(data.cache).expanduser(), progress)
    check_digests(poses.contents, expected)
    return PoseTraining(config, poses.splits, batch_tokens=batch_tokens, seed=seed), poses
