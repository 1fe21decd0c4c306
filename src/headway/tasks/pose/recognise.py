"""Recognising people with keypoints: COCO's JSON of keypoints beside the images."""

from __future__ import annotations

from pathlib import Path

from headway.data.coco import keypoint_files
from headway.data.datasets import kinds_of
from headway.tasks.proposal import Confidence, Proposal

PRESET = "pose"


def recognise(spec: str) -> Proposal | None:
    """What to train on people with keypoints."""
    kinds = kinds_of(spec)
    path = Path(spec).expanduser()
    train = keypoint_files(path).get("train") if not kinds and path.is_dir() else None
    if "people with keypoints" not in kinds and train is None:
        return None
    sign = f"COCO's keypoints in {train.name}" if train is not None else f"the built-in set {spec}"
    return Proposal(preset=PRESET, found="people with keypoints", sign=sign, confidence=Confidence.FORMAT)
