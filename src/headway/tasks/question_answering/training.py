"""Question answering as the trainer sees it: windows with the places of their answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headway.data.batching import Bucketed, Indices, like_length
from headway.data.questions import Question
from headway.decoding.non_finite import expect_finite, numbered
from headway.metrics.answers import AnswerReport, answer_report, best_threshold
from headway.tasks.question_answering.config import QuestionAnswering
from headway.tasks.question_answering.spans import RankedSpans, rank_spans
from headway.tasks.question_answering.windows import ContextWindow, WindowReader
from headway.tasks.sharing import in_one, values_in_parts
from headway.tasks.training_task import HIGHEST_F1, Batch, Term, Validated

EVALUATED = 16_384  # tokens in one forward pass of an evaluation, padding included
SHOWN = 3  # samples of a validation
THRESHOLD = "threshold"  # above which no answer is given, as a checkpoint keeps it


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadingReport:
    """The questions of a split with the spans a model finds."""

    questions: Sequence[Question]
    ranked: Sequence[RankedSpans]
    answers: Mapping[str, str]  # what was answered, by the question's number; "" for no answer
    figures: AnswerReport
    loss: float  # nats a window
    windows: int
    threshold: float | None  # above which no answer is given; None where every question has one

    def to_json(self) -> dict[str, Any]:
        """The object that `headway evaluate --json` prints."""
        figures = self.figures
        found: dict[str, Any] = {
            "exact_match": figures.exact,
            "f1": figures.f1,
            "loss": self.loss,
            "questions": figures.questions,
            "windows": self.windows,
        }
        for name, part in (("answerable", figures.answerable), ("unanswerable", figures.unanswerable)):
            if part is not None:
                found |= {f"{name}": part.questions, f"{name}_exact_match": part.exact, f"{name}_f1": part.f1}
        if self.threshold is not None:
            found["threshold"] = self.threshold
        return found


class QuestionAnsweringTraining:
    """Batches of windows, those of like length together; their targets are the answer's first and last token."""

    fixed_shapes = False
    criterion = HIGHEST_F1

    def __init__(
        self,
        config: QuestionAnswering,
        reader: WindowReader,
        splits: Mapping[str, Sequence[Question]],
        *,
        batch_tokens: int,
        seed: int,
        may_lack: bool,
    ) -> None:
        self.config, self.reader, self.splits, self.may_lack = config, reader, dict(splits), may_lack
        self._windows: dict[str, list[ContextWindow]] = {}
        self.order = Bucketed(_lengths(self.windows("train")), batch_tokens, seed)

    def windows(self, split: str) -> list[ContextWindow]:
        """The windows of a split, encoded when they are first asked for."""
        if split not in self._windows:
            self._windows[split] = [
                window
                for number, asked in enumerate(self.splits[split])
                for window in self.reader.windows(number, asked)
            ]
        return self._windows[split]

    def batch(self, indices: Indices) -> Batch:
        """These windows: tokens (B, T), lengths (B,), segments (B, T); targets (B, 2)."""
        windows = self.windows("train")
        return self._batch([windows[int(n)] for n in indices])

    def loss(self, model: nn.Module, batch: Batch, *, smoothing: float = 0.0, step: int = 0) -> dict[str, Term]:
        """The mean of the cross-entropies of start and end, over the tokens that are not padding."""
        return {"span": Term(span_loss(model(*batch.inputs), batch, smoothing), batch.count)}

    def validate(self, model: nn.Module, device: torch.device) -> Validated:
        """Nats a window over the whole validation split, exact match and F1."""
        report = self.evaluate(model, device, "val")
        figures = {"val_exact_match": report.figures.exact, "val_f1": report.figures.f1}
        return Validated(report.loss, figures, {} if report.threshold is None else {THRESHOLD: report.threshold})

    def evaluate(
        self, model: nn.Module, device: torch.device, split: str, *, threshold: float | None = None
    ) -> ReadingReport:
        """The answers to a split; a `threshold` of None is found on the validation split, if some have no answer.

        Without a validation split, as of other data, it is 0.
        """
        ranked, nats = self.ranked(model, device, split)
        if self.may_lack and threshold is None and "val" not in self.splits:
            threshold = 0.0
        elif self.may_lack and threshold is None:
            threshold = self.tuned(ranked if split == "val" else self.ranked(model, device, "val")[0])
        answers = {
            str(number): "" if threshold is not None and each.gap > threshold else _best(each)
            for number, each in enumerate(ranked)
        }
        questions = self.splits[split]
        references = {str(number): asked.answers for number, asked in enumerate(questions)}
        count = len(self.windows(split))
        return ReadingReport(
            questions=questions,
            ranked=ranked,
            answers=answers,
            figures=answer_report(references, answers),
            loss=nats / count,
            windows=count,
            threshold=threshold,
        )

    def tuned(self, ranked: Sequence[RankedSpans]) -> float:
        """The threshold with the highest F1 on the validation split, whose spans are given."""
        asked = {str(number): each.answers for number, each in enumerate(self.splits["val"])}
        spoken = {str(number): _best(each) for number, each in enumerate(ranked)}
        return best_threshold({str(number): each.gap for number, each in enumerate(ranked)}, spoken, asked)

    @torch.no_grad()
    def ranked(self, model: nn.Module, device: torch.device, split: str) -> tuple[list[RankedSpans], float]:
        """The best span of each question, and the summed loss in nats."""
        windows = self.windows(split)
        found: list[list[tuple[ContextWindow, Tensor]]] = [[] for _ in self.splits[split]]
        nats = 0.0

        def computed(some: Sequence[ContextWindow]) -> Tensor:
            batch = self._batch(some).to(device)
            logits_BT2 = model(*batch.inputs)
            return in_one(span_loss(logits_BT2, batch).cpu(), *(logits_T2 for _, logits_T2 in scored(some, logits_BT2)))

        batches = [[windows[int(n)] for n in numbers] for numbers in like_length(_lengths(windows), EVALUATED)]
        for some, values in zip(batches, values_in_parts(batches, computed), strict=True):
            nats += float(values[0])
            sizes = [2 * len(window.ids) for window in some]
            for window, logits in zip(some, values[1:].float().split(sizes), strict=True):
                found[window.number].append((window, logits.view(-1, 2)))
        ranked = [
            rank_spans(asked.context, each, top=1, longest=self.config.answer)
            for asked, each in zip(self.splits[split], found, strict=True)
        ]
        return ranked, nats

    @torch.no_grad()
    def samples(self, model: nn.Module, device: torch.device) -> list[str]:
        """A few questions of the validation split with the model's answers."""
        asked = self.splits["val"]
        lines = []
        for number in np.unique(np.linspace(0, len(asked) - 1, SHOWN).astype(np.int64)).tolist():
            windows = [window for window in self.windows("val") if window.number == number]
            logits_BT2 = model(*self._batch(windows).to(device).inputs)
            best = _best(
                rank_spans(asked[number].context, scored(windows, logits_BT2), top=1, longest=self.config.answer)
            )
            lines.append(f"{asked[number].question} → {best} ({' | '.join(asked[number].answers) or 'no answer'})")
        return lines

    def _batch(self, windows: Sequence[ContextWindow]) -> Batch:
        targets = torch.tensor([window.target for window in windows])
        return Batch(self.reader.inputs(windows), targets, len(windows))


def scored(windows: Sequence[ContextWindow], logits_BT2: Tensor) -> list[tuple[ContextWindow, Tensor]]:
    """Windows with their own logits (T, 2) on the CPU. Raises NonFiniteOutputError for a window that is NaN."""
    logits = logits_BT2.float().cpu()
    pairs = [(window, logits[row, : len(window.ids)]) for row, window in enumerate(windows)]
    for row, (window, each) in enumerate(pairs):
        with numbered({row: window.number}, "question"):  # type: ignore[arg-type]
            expect_finite(each.flatten()[None])
    return pairs


def span_loss(logits_BT2: Tensor, batch: Batch, smoothing: float = 0.0) -> Tensor:
    """The summed mean of the cross-entropies of start and end; padding cannot be chosen (Devlin et al. 2019, 4.2)."""
    lengths = batch.inputs[1]
    assert lengths is not None
    real_BT = torch.arange(logits_BT2.shape[1], device=logits_BT2.device) < lengths[:, None]
    logits = logits_BT2.float()
    total = logits.new_zeros(())
    for side in range(2):
        if smoothing:  # spread over real tokens only: log-softmax of padding is -inf
            logs = logits[..., side].masked_fill(~real_BT, -torch.inf).log_softmax(-1)
            right = logs.gather(1, batch.targets[:, side, None]).squeeze(1)
            mean = logs.masked_fill(~real_BT, 0.0).sum(1) / lengths
            total = total - ((1 - smoothing) * right + smoothing * mean).sum()
        else:
            masked = logits[..., side].masked_fill(~real_BT, -torch.inf)
            total = total + F.cross_entropy(masked, batch.targets[:, side], reduction="sum")
    return total / 2


def _best(ranked: RankedSpans) -> str:
    return ranked.spans[0].text if ranked.spans else ""


def _lengths(windows: Sequence[ContextWindow]) -> Indices:
    return np.asarray([len(window.ids) for window in windows], np.int64)
