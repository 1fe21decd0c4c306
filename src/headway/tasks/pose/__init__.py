"""Pose estimation."""
