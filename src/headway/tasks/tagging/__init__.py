"""Tagging: a class a word, entities, accuracy."""

from headway.tasks.tagging.config import Tagging

__all__ = ["Tagging"]
