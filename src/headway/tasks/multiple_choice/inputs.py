"""Questions with choices as inputs of a model: one row for each choice."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from headway.data.choices import ChoiceQuestion
from headway.data.tokenizers import Tokenizer
from headway.errors import DataError
from headway.tasks.multiple_choice.config import MultipleChoice
from headway.tasks.text_classification.layout import InputLayout


class ChoiceRow(NamedTuple):
    """The input of one choice: its tokens and their segments."""

    ids: list[int]
    segments: list[int]


class ChoiceReader:
    """Makes a row of each choice: `<s> context </s> question choice </s>`; what is empty is left out.

    Without a context the question is the first text. What is too long loses the end of the first text, and then the
    beginning of the second, so that the choice is always read.
    """

    def __init__(self, tokenizer: Tokenizer, config: MultipleChoice, *, segments: bool) -> None:
        self.tokenizer, self.segments = tokenizer, segments
        self.layout = InputLayout.of(tokenizer, config.length, pairs=True)

    def rows(self, asked: ChoiceQuestion) -> list[ChoiceRow]:
        """A row for each choice. Raises DataError for a text without tokens."""
        context, question = asked.context.strip(), asked.question.strip()
        first, before = (context, f"{question} " if question else "") if context else (question, "")
        head = self.tokenizer.encode(first)
        if not head:
            raise DataError("neither a context nor a question, expected at least one token")
        found = []
        for choice in asked.choices:
            tail = self.tokenizer.encode(f"{before}{choice.strip()}")
            if not choice.strip() or not tail:
                raise DataError("an empty choice, expected at least one token")
            tail = tail[max(len(tail) - self.layout.room + 1, 0) :]
            found.append(ChoiceRow(*self.layout.arrange(head[: self.layout.room - len(tail)], tail)))
        return found

    def inputs(self, rows: Sequence[ChoiceRow]) -> tuple[Tensor, Tensor, Tensor | None]:
        """Tokens (N, T), lengths (N,) and segments (N, T), None without any; N rows of all choices."""
        tokens, lengths = self.layout.padded([row.ids for row in rows])
        return tokens, lengths, self.layout.padded_segments([row.segments for row in rows]) if self.segments else None


def by_question(scores_N: Tensor, counts: Sequence[int]) -> Tensor:
    """Scores (N,) of all choices -> (B, K), a row for each question; -inf where it has fewer than K choices."""
    parts = scores_N.split(list(counts))
    return torch.nn.utils.rnn.pad_sequence(list(parts), batch_first=True, padding_value=-torch.inf)
