"""Training on whole texts, or pairs of them, with labels: batches of like length, a loss, the answers on a split."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from headway.data.batching import Bucketed, Indices, like_length
from headway.data.labelled_text import TextSplit
from headway.data.tokenizers import Tokenizer
from headway.tasks.base import named_split
from headway.tasks.classifier import Predictions
from headway.tasks.sharing import in_one, values_in_parts
from headway.tasks.text_classification.layout import InputLayout
from headway.tasks.text_classification.objectives import Objective
from headway.tasks.training_task import Batch, Criterion, Term, Validated

if TYPE_CHECKING:
    from headway.tasks.text_classification.baseline import Baselines
    from headway.tasks.text_classification.evaluation import Evaluated

EVALUATED = 65_536  # tokens in one forward pass of an evaluation, padding included
SHOWN = 3  # samples of a validation
SHOWN_WORDS = 12  # tokens of each


class TextClassificationTraining:
    """Batches of texts between special tokens, those of like length together, and what a model answers."""

    fixed_shapes = False
    unit: ClassVar[str] = "texts"

    def __init__(
        self,
        objective: Objective,
        layout: InputLayout,
        tokenizer: Tokenizer,
        splits: Mapping[str, TextSplit],
        *,
        segments: bool,
        batch_tokens: int,
        seed: int,
    ) -> None:
        self.objective, self.layout, self.tokenizer, self.splits = objective, layout, tokenizer, dict(splits)
        self.segments = segments and layout.pairs  # whether the model is told which text a token belongs to
        self.order = Bucketed(self._lengths(splits["train"]), batch_tokens, seed)

    @property
    def classes(self) -> tuple[str, ...]:
        """The classes, in the order of their numbers; none of numbers."""
        return self.objective.classes

    @property
    def criterion(self) -> Criterion:
        """The highest accuracy of one class a text, micro F1 of several, and of numbers the lowest squared error."""
        return self.objective.criterion

    def batch(self, indices: Indices) -> Batch:
        """These texts side by side (B, T), their lengths (B,), segments (B, T) of pairs, and labels."""
        return self._batch(self.splits["train"], indices)

    def loss(self, model: nn.Module, batch: Batch, *, smoothing: float = 0.0, step: int = 0) -> dict[str, Term]:
        """The objective's loss."""
        return {"class": Term(self.objective.loss(model(*batch.inputs), batch.targets, smoothing), batch.count)}

    def validate(self, model: nn.Module, device: torch.device) -> Validated:
        """The loss of a text over the whole validation split, and the figures that tell most."""
        found = self.evaluate(model, device, "val")
        return Validated(found.loss, {f"val_{name}": value for name, value in found.main.items()})

    def evaluate(self, model: nn.Module, device: torch.device, split: str) -> Evaluated:
        """The figures of a split."""
        return self.objective.evaluated(self.predictions(model, device, split))

    def baselines(self, split: str) -> Baselines | None:
        """What simple classifiers trained on the same texts have right on a split, where there are such."""
        return self.objective.baselines(self.splits["train"], self._split(split), self.tokenizer.size)

    @torch.no_grad()
    def predictions(self, model: nn.Module, device: torch.device, split: str) -> Predictions:
        """What the model makes of a split."""
        texts = self._split(split)
        labels = self.objective.targets(np.array(texts.labels))
        answers = torch.zeros(len(labels), self.objective.size)

        def scored(rows: Indices) -> Tensor:
            batch = self._batch(texts, rows).to(device)
            logits = model(*batch.inputs)
            return in_one(self.objective.plain_loss(logits, batch.targets), self.objective.answers(logits))

        batches = list(like_length(self._lengths(texts), EVALUATED))
        found = values_in_parts(batches, scored)
        for rows, values in zip(batches, found, strict=True):
            answers[torch.from_numpy(rows)] = values[1:].view(len(rows), -1).float()
        return Predictions(answers, labels, sum(float(values[0]) for values in found))

    @torch.no_grad()
    def samples(self, model: nn.Module, device: torch.device) -> list[str]:
        """What some texts of the validation split are taken for."""
        texts = self._split("val")
        rows = np.unique(np.linspace(0, len(texts.labels) - 1, SHOWN).astype(np.int64))
        batch = self._batch(texts, rows).to(device)
        answers = self.objective.answers(model(*batch.inputs))
        return [
            f"{self._beginning(texts, int(n))} … {self.objective.sample(label, answer)}"
            for n, label, answer in zip(rows, batch.targets, answers, strict=True)
        ]

    def _beginning(self, texts: TextSplit, number: int) -> str:
        """The first tokens as the model reads them, also the unknown ones."""
        parts = (texts.tokens(number), texts.second(number))
        return " | ".join(
            self.tokenizer.decode(ids[:SHOWN_WORDS].tolist(), specials=True) for ids in parts if ids is not None
        )

    def _batch(self, texts: TextSplit, rows: Indices) -> Batch:
        made = [self.layout.arrange(*_pair(texts, int(n))) for n in rows]
        tokens, lengths = self.layout.padded([ids for ids, _ in made])
        labels = self.objective.targets(np.array(texts.labels)[rows])
        inputs: tuple[Tensor, ...] = (tokens, lengths)
        if self.segments:
            inputs = (tokens, lengths, self.layout.padded_segments([segments for _, segments in made]))
        return Batch(inputs, labels, len(rows))

    def _lengths(self, texts: TextSplit) -> Indices:
        """Tokens of each text as a batch has it (N,)."""
        return self.layout.lengths(texts.lengths, texts.second_lengths)

    def _split(self, name: str) -> TextSplit:
        return named_split(self.splits, name)


def _pair(texts: TextSplit, number: int) -> tuple[list[int], list[int] | None]:
    second = texts.second(number)
    return texts.tokens(number).tolist(), None if second is None else second.tolist()
