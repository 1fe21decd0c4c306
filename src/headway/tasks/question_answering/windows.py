"""Questions as inputs of a model: question and context in one row, a long context in overlapping windows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headway.data.batching import padded
from headway.data.questions import Question
from headway.data.tokenizers import Tokenizer
from headway.errors import DataError
from headway.tasks.question_answering.config import QuestionAnswering

Ids = NDArray[np.int64]
NOWHERE = (0, 0)  # the target of a window without the answer: its first token


@dataclass(frozen=True, slots=True)
class ContextWindow:
    """`<s> question </s> part of the context </s>`, and which characters its tokens stand for."""

    number: int  # of the question
    ids: Ids  # (T,), special tokens included
    first: int  # the place of the context's first token in `ids`
    spans: tuple[tuple[int, int], ...]  # characters of each context token in this window
    target: tuple[int, int] = NOWHERE  # places in `ids` of the answer's first and last token

    @property
    def context(self) -> slice:
        """The places of the context's tokens."""
        return slice(self.first, self.first + len(self.spans))


class WindowReader:
    """Makes windows of questions."""

    def __init__(self, tokenizer: Tokenizer, config: QuestionAnswering, *, segments: bool) -> None:
        self.tokenizer, self.config, self.segments = tokenizer, config, segments
        self.before, self.after = (list(marks) for marks in tokenizer.around)

    def windows(self, number: int, asked: Question) -> Iterator[ContextWindow]:
        """The windows of a question. Raises DataError for a question or a context without tokens."""
        question = self.tokenizer.encode(asked.question)[: self.config.question]
        tokens, spans = self.tokenizer.encode_spans(asked.context)
        if not question or not tokens:
            raise DataError(f"an empty {'context' if question else 'question'}, expected at least one token")
        head = [*self.before, *question, *self.tokenizer.between]
        room = self.config.length - len(head) - len(self.after)
        if room < 1:
            raise DataError(f"task.length={self.config.length} leaves no room for a context")
        answer = _places(asked, spans)
        for start in range(0, len(tokens), min(self.config.stride, room)):
            part = slice(start, start + room)
            ids = np.asarray([*head, *tokens[part], *self.after], np.int64)
            target = NOWHERE
            if answer is not None and start <= answer[0] and answer[1] < start + room:
                target = (len(head) + answer[0] - start, len(head) + answer[1] - start)
            yield ContextWindow(number, ids, len(head), tuple(spans[part]), target)
            if start + room >= len(tokens):
                return

    def inputs(self, windows: Sequence[ContextWindow]) -> tuple[Tensor, Tensor, Tensor | None]:
        """Tokens (B, T), lengths (B,) and segments (B, T): 0 up to the context, 1 from there; None without any."""
        tokens, lengths = (
            torch.from_numpy(part)
            for part in padded([window.ids for window in windows], self.tokenizer.pad)  # type: ignore[misc]
        )
        if not self.segments:
            return tokens, lengths, None
        first_B1 = torch.tensor([[window.first] for window in windows])
        return tokens, lengths, (torch.arange(tokens.shape[1]) >= first_B1).long()


def _places(asked: Question, spans: Sequence[tuple[int, int]]) -> tuple[int, int] | None:
    """The first and the last token of the first reference answer, None without one.

    A token that holds only a part of the answer belongs to it.
    """
    if not asked.answers:
        return None
    begin, end = asked.starts[0], asked.starts[0] + len(asked.answers[0])
    inside = [n for n, (first, last) in enumerate(spans) if first < end and last > begin]
    if not inside:
        raise DataError(f"question {asked.id}: no token stands for the answer {asked.answers[0]!r}")
    return inside[0], inside[-1]
