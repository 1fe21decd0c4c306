"""Text classification: whole texts, a class each, judged by how many are right."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headway.data.batching import Bucketed, Indices, padded
from headway.data.labelled_text import TextSplit
from headway.data.tokenizers import Tokenizer
from headway.errors import DataError
from headway.tasks.classifier import ClassifierTraining, Predictions
from headway.tasks.sentence_embedding.embed import around
from headway.tasks.text_classification.config import TextClassification
from headway.tasks.training_task import Batch, Term, cross_entropy

EVALUATED = 65_536  # tokens in one forward pass of an evaluation, padding included
SHOWN = 3  # samples of a validation
SHOWN_WORDS = 12  # tokens of each


class TextClassificationTraining(ClassifierTraining):
    """Batches of texts `<s>` … `</s>`, those of like length together, and how often a model names their class."""

    fixed_shapes = False
    unit: ClassVar[str] = "texts"

    def __init__(
        self,
        config: TextClassification,
        classes: tuple[str, ...],
        tokenizer: Tokenizer,
        splits: Mapping[str, TextSplit],
        *,
        batch_tokens: int,
        seed: int,
    ) -> None:
        self.config, self.classes, self.tokenizer, self.splits = config, classes, tokenizer, dict(splits)
        self.before, self.after = (np.asarray(marks, np.int64) for marks in around(tokenizer))
        self.order = Bucketed(self._lengths(splits["train"]), batch_tokens, seed)

    def batch(self, indices: Indices) -> Batch:
        """These texts side by side (B, T), their lengths (B,) and classes (B,)."""
        return self._batch(self.splits["train"], indices)

    def loss(self, model: nn.Module, batch: Batch, *, smoothing: float = 0.0, step: int = 0) -> dict[str, Term]:
        """Cross-entropy of the classes."""
        return {"class": Term(cross_entropy(model(*batch.inputs), batch.targets, smoothing), batch.count)}

    @torch.no_grad()
    def predictions(self, model: nn.Module, device: torch.device, split: str) -> Predictions:
        """What the model makes of a split."""
        texts = self._split(split)
        labels = torch.from_numpy(np.array(texts.labels))
        chances = torch.zeros(len(labels), len(self.classes))
        nats = torch.zeros((), dtype=torch.float64, device=device)
        for rows in _passes(self._lengths(texts)):
            batch = self._batch(texts, rows).to(device)
            logits = model(*batch.inputs).float()
            nats += F.cross_entropy(logits, batch.targets, reduction="sum").double()
            chances[torch.from_numpy(rows)] = logits.softmax(-1).cpu()
        return Predictions(chances, labels, float(nats))

    @torch.no_grad()
    def samples(self, model: nn.Module, device: torch.device) -> list[str]:
        """What some texts of the validation split are taken for."""
        texts = self._split("val")
        rows = np.unique(np.linspace(0, len(texts.labels) - 1, SHOWN).astype(np.int64))
        batch = self._batch(texts, rows).to(device)
        logits = model(*batch.inputs).float()
        return [
            f"{self.tokenizer.decode(texts.tokens(int(n))[:SHOWN_WORDS].tolist())} … {self.sample(int(label), each)}"
            for n, label, each in zip(rows, batch.targets, logits, strict=True)
        ]

    def _batch(self, texts: TextSplit, rows: Indices) -> Batch:
        room = self.config.length - len(self.before) - len(self.after)
        ids = [np.concatenate([self.before, texts.tokens(int(n))[:room], self.after]) for n in rows]
        tokens, lengths = (torch.from_numpy(part) for part in padded(ids, self.tokenizer.pad))
        labels: Tensor = torch.from_numpy(np.array(texts.labels)[rows])
        return Batch((tokens, lengths), labels, len(rows))

    def _lengths(self, texts: TextSplit) -> Indices:
        """Tokens of each text as a batch has it (N,)."""
        return np.minimum(texts.lengths + len(self.before) + len(self.after), self.config.length)

    def _split(self, name: str) -> TextSplit:
        if name not in self.splits:
            raise DataError(f"no split {name!r}, there are {', '.join(self.splits)}")
        return self.splits[name]


def _passes(lengths: Indices) -> Iterator[Indices]:
    """Rows of like length, the longest first, as many at once as fit."""
    order = np.argsort(-lengths, kind="stable")
    while len(order):
        count = max(EVALUATED // int(lengths[order[0]]), 1)
        yield order[:count]
        order = order[count:]
