"""ROUGE (Lin 2004): overlap of n-grams and of longest common subsequences, as the package rouge-score defines it.

Words are runs of a-z and 0-9 of the lower-cased text, without stemming. Each figure is an F1, a fraction; of several
texts, the mean.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from headway.errors import DataError

_WORD = re.compile(r"[a-z0-9]+")


@dataclass(frozen=True, slots=True)
class Rouge:
    """F1 of the words, of pairs of words, of the longest common subsequence, and of that line by line."""

    rouge1: float
    rouge2: float
    rougeL: float  # noqa: N815  # the name it has everywhere
    rougeLsum: float  # noqa: N815

    def to_json(self) -> dict[str, float]:
        """The keys of `headway evaluate --metric rouge --json`."""
        return {"rouge1": self.rouge1, "rouge2": self.rouge2, "rougeL": self.rougeL, "rougeLsum": self.rougeLsum}


def rouge(outputs: Sequence[str], references: Sequence[str]) -> Rouge:
    """The mean over texts, each with one reference. Raises DataError for none, or for unequal numbers of them."""
    if not outputs or len(outputs) != len(references):
        raise DataError(f"{len(outputs)} outputs and {len(references)} references, expected the same, at least 1")
    found = [text_rouge(output, reference) for output, reference in zip(outputs, references, strict=True)]
    return Rouge(
        rouge1=sum(each.rouge1 for each in found) / len(found),
        rouge2=sum(each.rouge2 for each in found) / len(found),
        rougeL=sum(each.rougeL for each in found) / len(found),
        rougeLsum=sum(each.rougeLsum for each in found) / len(found),
    )


def text_rouge(output: str, reference: str) -> Rouge:
    """The figures of one text."""
    written, wanted = words(output), words(reference)
    return Rouge(
        rouge1=_ngrams(written, wanted, 1),
        rouge2=_ngrams(written, wanted, 2),
        rougeL=_f1(_lengths(wanted, written)[-1][-1], len(written), len(wanted)),
        rougeLsum=_by_line(_lines(output), _lines(reference)),
    )


def words(text: str) -> list[str]:
    """The words of a text."""
    return _WORD.findall(text.lower())


def _lines(text: str) -> list[list[str]]:
    return [words(line) for line in text.split("\n") if line]


def _ngrams(written: Sequence[str], wanted: Sequence[str], n: int) -> float:
    """F1 of the n-grams, each counted at most as often as the other side has it."""
    found, gold = (Counter(zip(*(side[k:] for k in range(n)), strict=False)) for side in (written, wanted))
    return _f1((found & gold).total(), found.total(), gold.total())


def _lengths(a: Sequence[str], b: Sequence[str]) -> list[list[int]]:
    """Entry [i][j]: the length of the longest common subsequence of the first i and the first j words."""
    table = [[0] * (len(b) + 1)]
    for word in a:
        above, row = table[-1], [0]
        for j, other in enumerate(b):
            row.append(above[j] + 1 if word == other else max(above[j + 1], row[j]))
        table.append(row)
    return table


def _places(a: Sequence[str], b: Sequence[str]) -> set[int]:
    """Where the words of a longest common subsequence stand in `a`: the one that ends last there on a tie."""
    table, i, j = _lengths(a, b), len(a), len(b)
    found = set()
    while i and j:
        if a[i - 1] == b[j - 1]:
            i, j = i - 1, j - 1
            found.add(i)
        elif table[i][j - 1] > table[i - 1][j]:
            j -= 1
        else:
            i -= 1
    return found


def _by_line(written: Sequence[Sequence[str]], wanted: Sequence[Sequence[str]]) -> float:
    """ROUGE-Lsum: of each line of the reference, the words in common with any line of the output (Lin 2004, 3.2).

    A word counts at most as often as each side has it in all its lines.
    """
    left, right = (Counter(word for line in side for word in line) for side in (written, wanted))
    hits = 0
    for line in wanted:
        union = set().union(*(_places(line, other) for other in written))
        for place in sorted(union):
            word = line[place]
            if left[word] > 0 and right[word] > 0:
                left[word], right[word], hits = left[word] - 1, right[word] - 1, hits + 1
    return _f1(hits, sum(map(len, written)), sum(map(len, wanted)))


def _f1(hits: int, written: int, wanted: int) -> float:
    """The harmonic mean of hits / written and hits / wanted; 0 without a hit."""
    return 2 * hits / (written + wanted) if hits else 0.0
