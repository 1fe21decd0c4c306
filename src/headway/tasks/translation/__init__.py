"""Translation: pairs of sentences, beam search, BLEU."""

from headway.tasks.translation.config import PLAIN, Decoding, Translation

__all__ = ["PLAIN", "Decoding", "Translation"]
