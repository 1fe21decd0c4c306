"""Language modelling: a stream of tokens, perplexity, sampling."""

from headway.tasks.language_modelling.config import Language

__all__ = ["Language"]
