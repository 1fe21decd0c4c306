"""Sets and sequences of vectors: a class or a number of the whole, or a class of each element."""

from headway.tasks.vectors.config import Vectors

__all__ = ["Vectors"]
