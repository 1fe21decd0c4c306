"""Objects with boxes by their sign: COCO's JSON of instances beside the images."""

from __future__ import annotations

from pathlib import Path

from headway.data.coco_boxes import box_files
from headway.data.datasets import kinds_of
from headway.tasks.proposal import Confidence, Proposal

PRESET = "detr-shapes"


def recognise(spec: str) -> Proposal | None:
    """What to train on objects with boxes."""
    kinds = kinds_of(spec)
    path = Path(spec).expanduser()
    train = box_files(path).get("train") if not kinds and path.is_dir() else None
    if "objects with boxes" not in kinds and train is None:
        return None
    sign = f"COCO's boxes in {train.name}" if train is not None else f"the built-in set {spec}"
    # A built-in set that has other kinds as well is theirs, unless a preset says otherwise.
    sure = Confidence.FORMAT if train is not None or len(kinds) == 1 else Confidence.POSSIBLE
    return Proposal(preset=PRESET, found="objects with boxes", sign=sign, confidence=sure)
