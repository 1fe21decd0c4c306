"""Pose estimation: the keypoints of the person in an image, by heat maps."""

from headway.tasks.pose.config import PoseEstimation

__all__ = ["PoseEstimation"]
