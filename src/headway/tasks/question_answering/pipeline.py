"""A finished question answerer at work: it answers, is evaluated, explained and verified."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from headway.data.questions import Question
from headway.data.unknown_tokens import count_lines
from headway.errors import ConfigError, DataError
from headway.tasks.answers import AnswerPrediction, Asked, AskedQuestion
from headway.tasks.base import EvaluateRequest, Pipeline, RunParts, Task, split_of
from headway.tasks.capabilities import Answers
from headway.tasks.question_answering.config import QuestionAnswering
from headway.tasks.question_answering.data import NO_ANSWER
from headway.tasks.question_answering.spans import RankedSpans, rank_spans
from headway.tasks.question_answering.training import THRESHOLD, scored
from headway.tasks.question_answering.windows import ContextWindow, WindowReader

if TYPE_CHECKING:
    from headway.tasks.explanation import Explanation
    from headway.tasks.export_request import ExportRequest
    from headway.tasks.question_answering.training import QuestionAnsweringTraining
    from headway.tasks.report import Report
    from headway.tasks.verification_inputs import VerificationInputs

ROWS = 16  # windows in one forward pass
TEXT, PLACES = "text", "places"
SIDES = ("start", "end")


class QuestionAnsweringPipeline(Pipeline, Answers):
    """A context and a question in, spans out."""

    evaluate_options = frozenset({"out"})

    def __init__(self, task: Task, parts: RunParts) -> None:
        super().__init__(task, parts)
        assert isinstance(task, QuestionAnswering)
        self.config = task
        sizes = parts.config.text
        self.reader = WindowReader(self.tokenizer, task, segments=sizes is not None and sizes.segments > 1)
        self.may_lack = NO_ANSWER in parts.data.classes

    def asked(self, line: str) -> AskedQuestion:
        """A context and a question of a line, the last tab between them."""
        context, tab, question = line.rpartition("\t")
        if not tab:
            raise DataError("expected a context, a tab and a question")
        return AskedQuestion(context, question)

    def answer(self, asked: Sequence[Asked], *, top: int = 1, threshold: float | None = None) -> list[AnswerPrediction]:
        """The best spans of each context for its question."""
        if any(AskedQuestion(*each).choices for each in asked):
            raise ConfigError(f"choices with {self.folder}, which answers with a part of the context: leave them out")
        pairs = [(each[0], each[1]) for each in asked]
        if threshold is not None and not self.may_lack:
            raise ConfigError(
                f"a threshold with {self.folder}, whose training questions all have an answer: leave it out"
            )
        if threshold is None and self.may_lack:
            threshold = self.threshold if self.threshold is not None else 0.0
        found = []
        for (_, question), ranked in zip(pairs, self._ranked(pairs, top), strict=True):
            silent = threshold is not None and ranked.gap > threshold
            answers = [] if silent else list(ranked.spans)
            found.append(AnswerPrediction(question=question, answers=answers, gap=ranked.gap, threshold=threshold))
        return found

    @cached_property
    def threshold(self) -> float | None:
        """The threshold tuned on validation questions in training; None if all have an answer or it was not kept."""
        return self.parts.tuned().get(THRESHOLD) if self.may_lack else None

    @torch.no_grad()
    def _ranked(self, pairs: Sequence[tuple[str, str]], top: int) -> Iterator[RankedSpans]:
        windows: list[ContextWindow] = []
        for number, (context, question) in enumerate(pairs):
            windows += self.reader.windows(number, Question("", question, context))
        logits: list[list[tuple[ContextWindow, Tensor]]] = [[] for _ in pairs]
        for first in range(0, len(windows), ROWS):
            some = windows[first : first + ROWS]
            inputs = (None if part is None else part.to(self.device) for part in self.reader.inputs(some))
            for window, each in scored(some, self.model(*inputs)):
                logits[window.number].append((window, each))
        for (context, _), own in zip(pairs, logits, strict=True):
            yield rank_spans(context, own, top=top, longest=self.config.answer)

    def evaluate(self, request: EvaluateRequest) -> Report:
        """Exact match and F1 as SQuAD's evaluation defines them."""
        from headway.tasks.question_answering.report import reading_report

        training: QuestionAnsweringTraining = self.read(request.data)  # type: ignore[assignment]
        split = split_of(training.splits, request.split)
        count_lines(self.tokenizer, [window.ids.tolist() for window in training.windows(split)])
        return reading_report(split, training.evaluate(self.model, self.device, split, threshold=self.threshold))

    def verification(self, given: Sequence[str]) -> VerificationInputs:
        """Texts of two segments, of which every token has two scores; of its data none is read."""
        from headway.tasks.verification_inputs import VERIFICATION, class_names, encoder_layout, text_inputs

        sizes = self.parts.inputs or VERIFICATION
        layout = encoder_layout(self.tokenizer, self.config.length, two=self.reader.segments)
        return text_inputs(self.model, layout, given, None, class_names(SIDES), names="class", sizes=sizes)

    def export_request(self) -> ExportRequest:
        """The reader, whose two outputs of a token are start and end."""
        from headway.tasks.export_request import ExportRequest, TextExport

        text = TextExport(tokenizer=self.tokenizer, around="start-stop")
        return ExportRequest(model=self.model, config=self.parts.config, text=text, head="span")

    def explain(self, given: str) -> Explanation:
        """A context and a question, a tab between them, and where the answer may begin and end."""
        from headway.tasks.encoder_explanation import embedding_table
        from headway.tasks.explanation import Explanation, Output, StackDescription, token_sequence

        context, question = context_and_question(given)
        window = next(self.reader.windows(0, Question("", question, context)))
        ids = window.ids.tolist()
        inputs = [None if part is None else part.to(self.device) for part in self.reader.inputs([window])]

        @torch.no_grad()
        def forward() -> Tensor:
            logits_2T: Tensor = self.model(*inputs)[0].T
            return logits_2T

        def said(logits_2T: Tensor) -> str:
            ranked = rank_spans(context, scored([window], logits_2T.T[None]), top=1, longest=self.config.answer)
            return ranked.spans[0].text if ranked.spans else NO_ANSWER

        return Explanation(
            kind="question-answering",
            given=f"{context} {question}",
            said=said,
            forward=forward,
            reads={"encoder": StackDescription(label="Encoder", sequence=TEXT)},
            sequences={
                TEXT: token_sequence(self.tokenizer, ids, start=window.first),
                PLACES: {"label": "Answer", "tokens": list(SIDES), "start": 0},
            },
            output=Output(
                name=lambda place: f"{self.tokenizer.display(ids[place])} ({place})",
                label="Where the answer is",
                sequence=PLACES,
                targets=[None, None],
                unit="place",
            ),
            tables={TEXT: embedding_table(self.model, self.tokenizer, ids)},
        )


def context_and_question(line: str) -> tuple[str, str]:
    """Both parts of a line. Raises DataError for one without a tab between them."""
    context, tab, question = line.rpartition("\t")
    if not tab:
        raise DataError("a context without a question: expected the context, a tab, and the question")
    return context, question
