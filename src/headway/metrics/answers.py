"""Exact match and F1 of answers, as the official evaluation of SQuAD defines them (Rajpurkar et al. 2016, section 6.1).

Texts are compared in lower case, without punctuation, without the articles a, an and the, and with single spaces. Of
several reference answers the one with the highest figure counts. A question without an answer has the empty text as its
only reference (Rajpurkar et al. 2018).
"""

from __future__ import annotations

import math
import re
import string
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

_ARTICLES = re.compile(r"\b(a|an|the)\b", re.UNICODE)
_PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalised(text: str) -> str:
    """An answer as it is compared."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def exact_match(reference: str, answer: str) -> float:
    """1 if both are the same once normalised, else 0."""
    return float(normalised(reference) == normalised(answer))


def overlap_f1(reference: str, answer: str) -> float:
    """F1 of the words that two answers have in common; where one has no words, 1 if the other has none either."""
    wanted, given = normalised(reference).split(), normalised(answer).split()
    if not wanted or not given:
        return float(wanted == given)
    common = (Counter(wanted) & Counter(given)).total()
    if not common:
        return 0.0
    precision, recall = common / len(given), common / len(wanted)
    return 2 * precision * recall / (precision + recall)


def best_scores(references: Sequence[str], answer: str) -> tuple[float, float]:
    """Exact match and F1, each with its nearest reference; without references the right answer is empty.

    References that have no words once normalised, such as "the", are left out, as in the official script.
    """
    usable = [reference for reference in references if normalised(reference)] or [""]
    return max(exact_match(each, answer) for each in usable), max(overlap_f1(each, answer) for each in usable)


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerReport:
    """Exact match and F1 over questions, 0 to 1, and over those with and without an answer (None: no such question)."""

    exact: float
    f1: float
    questions: int
    answerable: AnswerReport | None = None
    unanswerable: AnswerReport | None = None


def answer_report(references: Mapping[str, Sequence[str]], answers: Mapping[str, str]) -> AnswerReport:
    """The figures of answers by question id, "" for no answer; a question without references is unanswerable."""
    scores = {name: best_scores(references[name], answer) for name, answer in answers.items()}
    with_answer = [name for name in scores if references[name]]
    without = [name for name in scores if not references[name]]
    both = with_answer and without

    def over(names: Sequence[str]) -> AnswerReport:
        count = max(len(names), 1)
        return AnswerReport(
            exact=sum(scores[name][0] for name in names) / count,
            f1=sum(scores[name][1] for name in names) / count,
            questions=len(names),
        )

    whole = over(list(scores))
    return AnswerReport(
        exact=whole.exact,
        f1=whole.f1,
        questions=whole.questions,
        answerable=over(with_answer) if both else None,
        unanswerable=over(without) if both else None,
    )


def best_threshold(
    gaps: Mapping[str, float], answers: Mapping[str, str], references: Mapping[str, Sequence[str]]
) -> float:
    """The threshold above which no answer gives the highest F1.

    `gaps` has the score of no answer less that of the best span, by question, `answers` that span's text. A question
    whose gap is above the threshold gets no answer; thresholds lie midway between neighbouring gaps. Of several the
    lowest is taken.
    """
    order = sorted(answers, key=lambda name: gaps[name])
    spoken = {name: best_scores(references[name], answers[name])[1] for name in order}
    silent = {name: best_scores(references[name], "")[1] for name in order}
    total = sum(silent.values())
    best, where = total, gaps[order[0]] - 1.0 if order else 0.0
    for place, name in enumerate(order):
        total += spoken[name] - silent[name]
        after = gaps[order[place + 1]] if place + 1 < len(order) else math.inf
        if total > best + 1e-12 and after > gaps[name]:
            best, where = total, (gaps[name] + after) / 2 if math.isfinite(after) else gaps[name] + 1.0
    return where
