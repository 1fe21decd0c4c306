"""Masked language modelling: hidden tokens, next sentences, sentence vectors."""

from headway.tasks.masked_lm.config import Masked

__all__ = ["Masked"]
