"""What question answerers of every kind are asked, and what they answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from headway.tasks.multiple_choice.pipeline import ChoiceAnswer
    from headway.tasks.question_answering.spans import SpanAnswer


class AskedQuestion(NamedTuple):
    """A question about a context; with choices, it is answered by one of them, and one of both texts may be empty."""

    context: str
    question: str
    choices: tuple[str, ...] = ()


Asked = tuple[str, str] | AskedQuestion  # a context and a question, or with choices


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerPrediction:
    """The best answers to a question, best first: spans of its context, or choices; none if there is no answer."""

    question: str
    answers: Sequence[SpanAnswer] | Sequence[ChoiceAnswer]
    gap: float | None = None  # the score of no answer less that of the best span; None for choices
    threshold: float | None = None  # above which no answer is given; None where every question has one

    @property
    def text(self) -> str:
        """The best answer, "" for none."""
        return self.answers[0].text if self.answers else ""

    @property
    def lines(self) -> list[str]:
        """For people: a line for each answer with its probability and its place, tabs between them."""
        if not self.answers:
            return [f"(no answer)\t{self.gap:.4f}"]
        return [f"{' '.join(each.text.split())}\t{each.probability:.1%}\t{each.place}" for each in self.answers]

    def to_json(self) -> dict[str, Any]:
        """What `headway answer --json` prints of a question."""
        found = {
            "question": self.question,
            "answer": self.text,
            "answers": [each.to_json() for each in self.answers],
        }
        return found if self.gap is None else {**found, "no_answer_score": self.gap, "threshold": self.threshold}
