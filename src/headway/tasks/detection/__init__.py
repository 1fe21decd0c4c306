"""Object detection: the classes and boxes of the objects in an image, as a set (Carion et al. 2020)."""

from headway.tasks.detection.config import Detection

__all__ = ["Detection"]
