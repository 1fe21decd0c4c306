"""Caption metrics against human references: BLEU-4, CIDEr-D and exact match."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest

from sacrebleu.metrics.bleu import BLEU

from headway.errors import DataError
from headway.metrics.cider import cider

_WORD = re.compile(r"\w+(?:['’-]\w+)*")


def caption_words(text: str) -> list[str]:
    """Lower-case words without punctuation; COCO's own scores use the Stanford tokenizer (Java) instead."""
    return _WORD.findall(text.lower())


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptionReport:
    """The metrics of a set of captions."""

    bleu4: float  # 0 to 100
    cider: float  # 0 to 10
    exact_match: float
    sentences: int

    def to_json(self) -> dict[str, float | int]:
        """The object that `headway evaluate --json` prints."""
        return {
            "bleu4": self.bleu4,
            "cider": self.cider,
            "exact_match": self.exact_match,
            "sentences": self.sentences,
        }


def caption_report(captions: Sequence[str], references: Sequence[Sequence[str]]) -> CaptionReport:
    """Score one caption per image against its references. Raises DataError unless every image has some."""
    if len(captions) != len(references) or not captions:
        raise DataError(f"{len(captions)} captions for {len(references)} images; expected one for each, at least one")
    own = [caption_words(text) for text in captions]
    theirs = [[caption_words(text) for text in those] for those in references]
    # sacreBLEU expects a list per reference number, with None where an image has fewer references.
    columns = list(zip_longest(*([" ".join(words) for words in those] for those in theirs)))
    metric = BLEU(tokenize="none", smooth_method="none", force=True)
    score = metric.corpus_score([" ".join(words) for words in own], columns)
    right = sum(words in those for words, those in zip(own, theirs, strict=True))
    return CaptionReport(
        bleu4=score.score, cider=cider(own, theirs), exact_match=right / len(captions), sentences=len(captions)
    )
