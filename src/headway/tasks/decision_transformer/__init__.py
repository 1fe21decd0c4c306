"""Decision Transformer: imitate logged episodes, conditioned on their return."""

from headway.tasks.decision_transformer.config import Deciding

__all__ = ["Deciding"]
