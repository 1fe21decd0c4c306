"""Classification of images and of sounds, which are read as spectrograms."""

from headway.tasks.image_classification.config import Classification

__all__ = ["Classification"]
