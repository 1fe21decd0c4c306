"""Images of people with keypoints as a pose task."""

from __future__ import annotations

from pathlib import Path

from headway.data.datasets import load_poses
from headway.data.digests import check_digests
from headway.tasks.base import DataRequest, Prepared
from headway.tasks.pose.config import PoseEstimation
from headway.tasks.pose.training import PoseTraining


def prepare(config: PoseEstimation, request: DataRequest) -> Prepared:
    """Images with the keypoints of a person each, and their digests by split."""
    cache = Path(request.data.cache).expanduser()
    poses = load_poses(request.data.spec, config.size, cache, request.progress)
    check_digests(poses.contents, request.expected)
    return Prepared(
        training=PoseTraining(config, poses.splits, batch_tokens=request.batch_tokens, seed=request.seed),
        digests=poses.contents,
        facts={
            "people": ", ".join(f"{name} {len(store):,}" for name, store in poses.splits.items()),
            "keypoints": str(getattr(request.model, "keypoints", 0)),
        },
    )
