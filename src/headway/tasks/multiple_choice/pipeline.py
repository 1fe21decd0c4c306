"""A finished multiple-choice answerer at work: it answers, is evaluated, explained and verified."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from headway.counts import counted
from headway.data.choices import MOST_CHOICES, ChoiceQuestion
from headway.data.unknown_tokens import count_lines
from headway.errors import ConfigError, DataError, shown
from headway.tasks.answers import AnswerPrediction, Asked, AskedQuestion
from headway.tasks.base import EvaluateRequest, Pipeline, RunParts, Task, split_of
from headway.tasks.capabilities import Answers
from headway.tasks.multiple_choice.config import MultipleChoice
from headway.tasks.multiple_choice.inputs import ChoiceReader
from headway.tasks.multiple_choice.training import question_scores

if TYPE_CHECKING:
    from headway.tasks.explanation import Explanation
    from headway.tasks.export_request import ExportRequest
    from headway.tasks.multiple_choice.training import MultipleChoiceTraining
    from headway.tasks.report import Report
    from headway.tasks.verification_inputs import VerificationInputs

QUESTIONS = 8  # in one forward pass
TEXT = "text"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChoiceAnswer:
    """A choice as the answer to a question."""

    text: str
    choice: int  # its number, from 0
    score: float
    probability: float  # softmax over the choices of the question

    @property
    def place(self) -> str:
        """Its number among the choices, from 1."""
        return f"choice {self.choice + 1}"

    def to_json(self) -> dict[str, Any]:
        """Its fields."""
        return asdict(self)


class MultipleChoicePipeline(Pipeline, Answers):
    """A context, a question and choices in, the choices by their probability out.

    The command is `headway answer`, with `--choice` for each choice, and not `classify`: a class is one of a fixed list
    that belongs to the run, while choices belong to the question and differ from one to the next.
    """

    evaluate_options = frozenset({"out"})

    def __init__(self, task: Task, parts: RunParts) -> None:
        super().__init__(task, parts)
        assert isinstance(task, MultipleChoice)
        self.config = task
        self.reader = ChoiceReader(self.tokenizer, task, segments="segments" in self.model.reads)

    def asked(self, line: str) -> AskedQuestion:
        """Context, question and choices of a line, tabs between them; context or question may be empty."""
        context, *rest = line.split("\t")
        if len(rest) < 3:
            raise DataError("expected a context, a question and at least two choices, with tabs between them")
        return AskedQuestion(context, rest[0], tuple(rest[1:]))

    def answer(self, asked: Sequence[Asked], *, top: int = 1, threshold: float | None = None) -> list[AnswerPrediction]:
        """The likeliest choices of each question."""
        if threshold is not None:
            raise ConfigError(f"a threshold with {self.folder}, which always answers with a choice: leave it out")
        questions = [self._question(AskedQuestion(*each)) for each in asked]
        found = []
        for first in range(0, len(questions), QUESTIONS):
            some = questions[first : first + QUESTIONS]
            for each, scores in zip(some, self._scores(some, first), strict=True):
                shares = scores.softmax(0).tolist()
                order = sorted(range(len(shares)), key=lambda n: (-shares[n], n))
                answers = [
                    ChoiceAnswer(text=each.choices[n], choice=n, score=float(scores[n]), probability=shares[n])
                    for n in order[:top]
                ]
                found.append(AnswerPrediction(question=each.question or each.context, answers=answers))
        return found

    def _question(self, asked: AskedQuestion) -> ChoiceQuestion:
        count = len(asked.choices)
        if not 2 <= count <= MOST_CHOICES:
            advice = "give --choice for each of them (choices in Python and JSON)" if count < 2 else "give fewer"
            raise ConfigError(f"{counted(count, 'choice')}, allowed: 2 to {MOST_CHOICES}; {advice}")
        if len(set(asked.choices)) < count:
            again = next(choice for n, choice in enumerate(asked.choices) if choice in asked.choices[:n])
            raise DataError(f"the choice {shown(again)} is there twice, expected different ones")
        return ChoiceQuestion("", asked.context, asked.question, asked.choices, -1)

    @torch.no_grad()
    def _scores(self, questions: Sequence[ChoiceQuestion], first: int = 0) -> list[Tensor]:
        """The scores of each question's choices, on the CPU."""
        rows = [self.reader.rows(each) for each in questions]
        inputs = self.reader.inputs([row for each in rows for row in each])
        scores_N1 = self.model(*(None if part is None else part.to(self.device) for part in inputs))
        return question_scores(scores_N1, [len(each) for each in rows], range(first, first + len(rows)))

    def evaluate(self, request: EvaluateRequest) -> Report:
        """Accuracy with its interval."""
        from headway.tasks.multiple_choice.report import choice_report

        training: MultipleChoiceTraining = self.read(request.data)  # type: ignore[assignment]
        split = split_of(training.splits, request.split)
        count_lines(self.tokenizer, [row.ids for rows in training.rows(split) for row in rows])
        return choice_report(split, training.evaluate(self.model, self.device, split))

    def verification(self, given: Sequence[str]) -> VerificationInputs:
        """Texts of two segments, each of which has a score; of its data none is read."""
        from headway.tasks.verification_inputs import VERIFICATION, encoder_layout, text_inputs

        sizes = self.parts.inputs or VERIFICATION
        layout = encoder_layout(self.tokenizer, self.config.length, two=self.reader.segments)
        return text_inputs(self.model, layout, given, None, str, names=None, sizes=sizes)

    def export_request(self) -> ExportRequest:
        """The encoder, whose one output is the score of a choice."""
        from headway.tasks.export_request import ExportRequest, TextExport

        text = TextExport(tokenizer=self.tokenizer, around="start-stop")
        return ExportRequest(model=self.model, config=self.parts.config, text=text, head="choice")

    def explain(self, given: str) -> Explanation:
        """A context, a question and choices, tabs between them: how the likeliest choice is read."""
        from headway.tasks.encoder_explanation import embedding_table
        from headway.tasks.explanation import Explanation, StackDescription, token_sequence

        asked = self._question(self.asked(given))
        (scores,) = self._scores([asked])
        best = int(scores.argmax())
        row = self.reader.rows(asked)[best]
        tokens, _, segments = self.reader.inputs([row])
        inputs = [None if part is None else part.to(self.device) for part in (tokens, None, segments)]

        @torch.no_grad()
        def forward() -> Tensor:
            score: Tensor = self.model(*inputs)
            return score

        said = ", ".join(f"{text} {share:.1%}" for text, share in zip(asked.choices, scores.softmax(0), strict=True))
        return Explanation(
            kind="multiple-choice",
            given=given.replace("\t", " | "),
            said=f"{asked.choices[best]} ({said})",
            forward=forward,
            reads={"encoder": StackDescription(label="Encoder", sequence=TEXT)},
            sequences={TEXT: token_sequence(self.tokenizer, row.ids, start=0)},
            output=None,
            tables={TEXT: embedding_table(self.model, self.tokenizer, row.ids)},
        )
