"""Image captioning: a sentence about an image, by beam search."""

from headway.tasks.captioning.config import Captioning

__all__ = ["Captioning"]
