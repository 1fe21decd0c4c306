"""What captions are worth beside the ones people wrote: BLEU-4, CIDEr-D, and how many are one of theirs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest

from sacrebleu.metrics.bleu import BLEU

from headway.errors import DataError
from headway.metrics.cider import cider

_WORD = re.compile(r"\w+(?:['’-]\w+)*")


def words_of(text: str) -> list[str]:
    """Words in lower case without punctuation; COCO's own scores cut words by the Stanford tokenizer, which is Java."""
    return _WORD.findall(text.lower())


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptionReport:
    """Every figure of one set of captions."""

    bleu4: float  # 0 to 100
    cider: float  # 0 to 10
    exact_match: float
    sentences: int

    def to_json(self) -> dict[str, float | int]:
        """Values by name."""
        return {
            "bleu4": self.bleu4,
            "cider": self.cider,
            "exact_match": self.exact_match,
            "sentences": self.sentences,
        }


def caption_report(said: Sequence[str], references: Sequence[Sequence[str]]) -> CaptionReport:
    """Captions against the references of each image, one or several. Raises DataError unless all have some."""
    if len(said) != len(references) or not said:
        raise DataError(f"{len(said)} captions for {len(references)} images; expected one for each, at least one")
    own, theirs = [words_of(text) for text in said], [[words_of(text) for text in those] for those in references]
    # sacreBLEU wants a list for each reference's number; None stands where an image has fewer.
    columns = list(zip_longest(*([" ".join(words) for words in those] for those in theirs)))
    metric = BLEU(tokenize="none", smooth_method="none", force=True)
    score = metric.corpus_score([" ".join(words) for words in own], columns)
    right = sum(words in those for words, those in zip(own, theirs, strict=True))
    return CaptionReport(
        bleu4=score.score, cider=cider(own, theirs), exact_match=right / len(said), sentences=len(said)
    )
