"""Word and character error rate of transcripts, with the alignment that jiwer (4.0) and rapidfuzz choose.

An error rate is (S + D + I) / (H + S + D): the fewest substitutions, deletions and insertions that turn the references
into the hypotheses, by the words (characters) of all references. It may be above 1. Words are divided at spaces;
characters include the spaces between words. Without any reference word the rate is the number of insertions.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headway.errors import DataError


@dataclass(frozen=True, slots=True, kw_only=True)
class EditCounts:
    """How many tokens of references and hypotheses agree, and by which edits the others differ."""

    hits: int = 0
    substitutions: int = 0
    deletions: int = 0  # tokens that the hypothesis lacks
    insertions: int = 0  # tokens that only the hypothesis has

    def __add__(self, other: EditCounts) -> EditCounts:
        return EditCounts(
            hits=self.hits + other.hits,
            substitutions=self.substitutions + other.substitutions,
            deletions=self.deletions + other.deletions,
            insertions=self.insertions + other.insertions,
        )

    @property
    def errors(self) -> int:
        """All edits."""
        return self.substitutions + self.deletions + self.insertions

    @property
    def rate(self) -> float:
        """Edits by the length of the references; by 1 where that is 0."""
        return self.errors / max(self.hits + self.substitutions + self.deletions, 1)


def edit_counts(reference: Sequence[Hashable], hypothesis: Sequence[Hashable]) -> EditCounts:
    """The fewest edits from a reference to a hypothesis (Levenshtein 1966).

    Of several alignments with as few, it is that of rapidfuzz: equal beginnings and endings are taken off; then, from
    the end, a deletion is preferred, then an insertion where it leads to a smaller distance, then a pair.
    """
    same = min(len(reference), len(hypothesis))
    first = next((n for n in range(same) if reference[n] != hypothesis[n]), same)
    left = same - first
    last = next((n for n in range(left) if reference[-1 - n] != hypothesis[-1 - n]), left)
    expected, found = reference[first : len(reference) - last], hypothesis[first : len(hypothesis) - last]
    table = _distances(expected, found)
    i, j, hits, pairs, deleted, inserted = len(expected), len(found), first + last, 0, 0, 0
    while i and j:
        if table[i, j] == table[i - 1, j] + 1:
            i, deleted = i - 1, deleted + 1
        elif table[i, j - 1] == table[i - 1, j - 1] - 1:
            j, inserted = j - 1, inserted + 1
        else:
            i, j = i - 1, j - 1
            hits, pairs = hits + (expected[i] == found[j]), pairs + (expected[i] != found[j])
    return EditCounts(hits=hits, substitutions=pairs, deletions=deleted + i, insertions=inserted + j)


def word_errors(references: Sequence[str], hypotheses: Sequence[str]) -> EditCounts:
    """The edits of all words. Raises DataError unless there are as many hypotheses as references."""
    _expect_pairs(references, hypotheses)
    pairs = zip(references, hypotheses, strict=True)
    return sum((edit_counts(_words(one), _words(two)) for one, two in pairs), EditCounts())


def character_errors(references: Sequence[str], hypotheses: Sequence[str]) -> EditCounts:
    """The edits of all characters, spaces among them. Raises DataError unless there are as many of both."""
    _expect_pairs(references, hypotheses)
    pairs = zip(references, hypotheses, strict=True)
    return sum((edit_counts(one.strip(), two.strip()) for one, two in pairs), EditCounts())


@dataclass(frozen=True, slots=True, kw_only=True)
class TranscriptReport:
    """The metrics of a set of transcripts."""

    words: EditCounts
    characters: EditCounts
    exact_match: float  # share of sounds whose words are all right
    sounds: int

    def to_json(self) -> dict[str, float | int]:
        """The object that `headway evaluate --json` prints."""
        return {
            "wer": self.words.rate,
            "cer": self.characters.rate,
            "exact_match": self.exact_match,
            "hits": self.words.hits,
            "substitutions": self.words.substitutions,
            "deletions": self.words.deletions,
            "insertions": self.words.insertions,
            "sounds": self.sounds,
        }


def transcript_report(references: Sequence[str], hypotheses: Sequence[str]) -> TranscriptReport:
    """Score one transcript a sound. Raises DataError unless there is one for each, and at least one."""
    if not references:
        raise DataError("0 transcripts, expected at least 1")
    words, characters = word_errors(references, hypotheses), character_errors(references, hypotheses)
    right = sum(_words(one) == _words(two) for one, two in zip(references, hypotheses, strict=True))
    return TranscriptReport(
        words=words, characters=characters, exact_match=right / len(references), sounds=len(references)
    )


def _words(text: str) -> list[str]:
    """Words as jiwer divides them: spaces around a text and repeated spaces make no word."""
    return [word for word in text.strip().split(" ") if word]


def _expect_pairs(references: Sequence[str], hypotheses: Sequence[str]) -> None:
    if len(references) != len(hypotheses):
        raise DataError(f"{len(hypotheses)} transcripts for {len(references)} texts; expected one for each")


def _distances(expected: Sequence[Hashable], found: Sequence[Hashable]) -> NDArray[np.int32]:
    """The distances of all beginnings of two sequences (N + 1, M + 1)."""
    known: dict[Hashable, int] = {}
    one, two = (
        np.asarray([known.setdefault(each, len(known)) for each in side], np.int32) for side in (expected, found)
    )
    table = np.zeros((len(one) + 1, len(two) + 1), np.int32)
    steps = np.arange(len(two) + 1, dtype=np.int32)
    table[0] = steps
    for row, token in enumerate(one, 1):
        above = table[row - 1]
        best = above + 1
        best[1:] = np.minimum(best[1:], above[:-1] + (two != token))
        table[row] = np.minimum.accumulate(best - steps) + steps  # an insertion costs 1 for each step to the right
    return table
