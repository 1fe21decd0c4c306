"""Multiple choice as the trainer sees it: all choices of a question in one batch, and a softmax over them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headway.data.batching import Bucketed, Indices, like_length
from headway.data.choices import ChoiceQuestion
from headway.decoding.non_finite import expect_finite, numbered
from headway.metrics.classification import wilson_interval
from headway.tasks.multiple_choice.inputs import ChoiceReader, ChoiceRow, by_question
from headway.tasks.sharing import in_one, values_in_parts
from headway.tasks.training_task import HIGHEST_ACCURACY, Batch, Term, Validated

EVALUATED = 16_384  # tokens in one forward pass of an evaluation, padding included
SHOWN = 3  # samples of a validation


@dataclass(frozen=True, slots=True, kw_only=True)
class ChoiceReport:
    """The questions of a split with the probabilities that a model gives their choices."""

    questions: Sequence[ChoiceQuestion]
    probabilities: Sequence[Sequence[float]]  # of each choice
    loss: float  # nats a question

    @property
    def chosen(self) -> list[int]:
        """The number of the likeliest choice of each question."""
        return [max(range(len(each)), key=each.__getitem__) for each in self.probabilities]

    @property
    def right(self) -> int:
        """How many questions are answered correctly."""
        return sum(chosen == asked.right for chosen, asked in zip(self.chosen, self.questions, strict=True))

    @property
    def chance(self) -> float:
        """The accuracy that drawing a choice at random has in the mean."""
        return sum(1 / len(asked.choices) for asked in self.questions) / len(self.questions)

    def to_json(self) -> dict[str, Any]:
        """The object that `headway evaluate --json` prints."""
        low, high = wilson_interval(self.right, len(self.questions))
        return {
            "accuracy": self.right / len(self.questions),
            "accuracy_low": low,
            "accuracy_high": high,
            "loss": self.loss,
            "questions": len(self.questions),
            "chance": self.chance,
        }


class MultipleChoiceTraining:
    """Batches of questions of like length; the rows of a question's choices are never parted."""

    fixed_shapes = False
    criterion = HIGHEST_ACCURACY

    def __init__(
        self, reader: ChoiceReader, splits: Mapping[str, Sequence[ChoiceQuestion]], *, batch_tokens: int, seed: int
    ) -> None:
        self.reader, self.splits = reader, dict(splits)
        self._rows: dict[str, list[list[ChoiceRow]]] = {}
        self.order = Bucketed(_lengths(self.rows("train")), batch_tokens, seed)

    def rows(self, split: str) -> list[list[ChoiceRow]]:
        """The rows of each question of a split, encoded when they are first asked for."""
        if split not in self._rows:
            self._rows[split] = [self.reader.rows(asked) for asked in self.splits[split]]
        return self._rows[split]

    def batch(self, indices: Indices) -> Batch:
        """These questions: tokens (N, T), lengths (N,), segments (N, T); targets (B, 2): choices, and the right one."""
        return self._batch("train", indices)

    def loss(self, model: nn.Module, batch: Batch, *, smoothing: float = 0.0, step: int = 0) -> dict[str, Term]:
        """The cross-entropy of the right choice among those of its question."""
        return {"choice": Term(choice_loss(model(*batch.inputs), batch.targets, smoothing), batch.count)}

    def validate(self, model: nn.Module, device: torch.device) -> Validated:
        """Nats a question over the whole validation split, and the accuracy."""
        report = self.evaluate(model, device, "val")
        return Validated(report.loss, {"val_accuracy": report.right / len(report.questions)})

    @torch.no_grad()
    def evaluate(self, model: nn.Module, device: torch.device, split: str) -> ChoiceReport:
        """The probabilities of all choices of a split."""
        questions, nats = self.splits[split], 0.0
        found: list[list[float]] = [[] for _ in questions]

        def scored(numbers: Indices) -> Tensor:
            batch = self._batch(split, numbers).to(device)
            scores_N1 = model(*batch.inputs)
            counts = batch.targets[:, 0].tolist()
            shares = [scores.softmax(0).cpu() for scores in question_scores(scores_N1, counts, numbers)]
            return in_one(choice_loss(scores_N1, batch.targets).cpu(), *shares)

        batches = list(like_length(_lengths(self.rows(split)), EVALUATED))
        for numbers, values in zip(batches, values_in_parts(batches, scored), strict=True):
            nats += float(values[0])
            counts = [len(questions[int(number)].choices) for number in numbers]
            for number, shares in zip(numbers, values[1:].split(counts), strict=True):
                found[int(number)] = shares.tolist()
        return ChoiceReport(questions=questions, probabilities=found, loss=nats / len(questions))

    @torch.no_grad()
    def samples(self, model: nn.Module, device: torch.device) -> list[str]:
        """A few questions of the validation split with the model's answers."""
        asked = self.splits["val"]
        numbers = np.unique(np.linspace(0, len(asked) - 1, SHOWN).astype(np.int64))
        batch = self._batch("val", numbers).to(device)
        scores_BK = by_question(model(*batch.inputs)[:, 0].float(), batch.targets[:, 0].tolist())
        best = scores_BK.argmax(1).tolist()
        return [
            f"{each.question or each.context} → {each.choices[chosen]} ({each.choices[each.right]})"
            for each, chosen in zip((asked[int(n)] for n in numbers), best, strict=True)
        ]

    def _batch(self, split: str, numbers: Indices) -> Batch:
        rows, questions = self.rows(split), self.splits[split]
        chosen = [int(n) for n in numbers]
        targets = torch.tensor([[len(rows[n]), questions[n].right] for n in chosen])
        return Batch(self.reader.inputs([row for n in chosen for row in rows[n]]), targets, len(chosen))


def question_scores(scores_N1: Tensor, counts: Sequence[int], numbers: Sequence[int] | Indices) -> list[Tensor]:
    """The scores of each question's choices on the CPU; `numbers` are those of the questions, for messages.

    Raises NonFiniteOutputError for a score that is NaN or infinite.
    """
    found = list(scores_N1[:, 0].float().cpu().split(list(counts)))
    for number, scores in zip(numbers, found, strict=True):
        with numbered({0: int(number)}, "question"):  # type: ignore[arg-type]
            expect_finite(scores[None])
    return found


def choice_loss(scores_N1: Tensor, targets_B2: Tensor, smoothing: float = 0.0) -> Tensor:
    """The summed cross-entropy of the right choices; what is smoothed is spread over a question's own choices."""
    counts, right = targets_B2.unbind(1)
    logs_BK = by_question(scores_N1[:, 0].float(), counts.tolist()).log_softmax(1)
    loss = F.nll_loss(logs_BK, right, reduction="sum")
    if not smoothing:
        return loss
    mean_B = -logs_BK.masked_fill(logs_BK == -torch.inf, 0.0).sum(1) / counts
    return (1 - smoothing) * loss + smoothing * mean_B.sum()


def _lengths(rows: Sequence[Sequence[ChoiceRow]]) -> Indices:
    """Tokens of each question as a batch has them: the longest row for each of its choices."""
    return np.asarray([len(each) * max(len(row.ids) for row in each) for each in rows], np.int64)
