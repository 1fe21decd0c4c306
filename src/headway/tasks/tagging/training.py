"""Tagging as the trainer sees it: rows of words, and how many of their tags a model names right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from headway.data.batching import Bucketed, Indices, like_length, padded
from headway.data.tagged_text import TaggedSentence
from headway.data.tokenizers import Tokenizer
from headway.decoding.non_finite import expect_finite, numbered
from headway.metrics.classification import wilson_interval
from headway.metrics.entities import EntityReport, entity_report
from headway.tasks.sharing import in_one, values_in_parts
from headway.tasks.tagging.alignment import WordAligner, WordRow
from headway.tasks.training_task import (
    HIGHEST_ACCURACY,
    HIGHEST_F1,
    IGNORED,
    Batch,
    Criterion,
    Term,
    Validated,
    cross_entropy,
)

EVALUATED = 32_768  # tokens in one forward pass of an evaluation, padding included
SHOWN = 3  # samples of a validation


@dataclass(frozen=True, slots=True, kw_only=True)
class TaggedSplit:
    """The sentences of a split, and the rows they make with the classes of their words."""

    sentences: Sequence[TaggedSentence]
    rows: Sequence[WordRow]
    labels: Sequence[NDArray[np.int64]]  # of each row's words

    @classmethod
    def of(cls, aligner: WordAligner, sentences: Sequence[TaggedSentence], classes: Sequence[str]) -> TaggedSplit:
        """Encode sentences."""
        numbers = {name: number for number, name in enumerate(classes)}
        rows = list(aligner.rows([each.words for each in sentences]))
        labels = []
        for row in rows:
            tags = sentences[row.sentence].tags[row.first : row.first + len(row.begins)]
            labels.append(np.asarray([numbers[tag] for tag in tags], np.int64))
        return cls(sentences=sentences, rows=rows, labels=labels)

    @property
    def words(self) -> int:
        """How many words the sentences have."""
        return sum(len(each.words) for each in self.sentences)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaggingReport:
    """A split with the tags a model gives it."""

    sentences: Sequence[TaggedSentence]
    predicted: Sequence[Sequence[str]]
    nats: float  # the summed loss
    entities: EntityReport | None  # None for tags that do not mark any
    ceiling: float | None = None

    @property
    def words(self) -> int:
        """The number of words."""
        return sum(len(each.words) for each in self.sentences)

    @property
    def right(self) -> int:
        """Words whose tag is right."""
        pairs = zip(self.sentences, self.predicted, strict=True)
        return sum(true == guess for each, tags in pairs for true, guess in zip(each.tags, tags, strict=True))

    @property
    def accuracy(self) -> float:
        """The share of words whose tag is right."""
        return self.right / self.words

    @property
    def sentence_accuracy(self) -> float:
        """The share of sentences whose tags are all right."""
        pairs = zip(self.sentences, self.predicted, strict=True)
        return sum(tuple(tags) == each.tags for each, tags in pairs) / len(self.sentences)

    @property
    def loss(self) -> float:
        """Mean nats a word."""
        return self.nats / self.words

    def by_tag(self) -> dict[str, tuple[int, int]]:
        """For each tag, sorted, how many words have it, and how many of those are right."""
        counts: dict[str, list[int]] = {}
        for each, tags in zip(self.sentences, self.predicted, strict=True):
            for true, guess in zip(each.tags, tags, strict=True):
                entry = counts.setdefault(true, [0, 0])
                entry[0] += 1
                entry[1] += true == guess
        return {tag: (total, right) for tag, (total, right) in sorted(counts.items())}

    def to_json(self) -> dict[str, Any]:
        """The object that `headway evaluate --json` prints."""
        low, high = wilson_interval(self.right, self.words)
        found: dict[str, Any] = {
            "accuracy": self.accuracy,
            "accuracy_low": low,
            "accuracy_high": high,
            "sentence_accuracy": self.sentence_accuracy,
            "loss": self.loss,
            "words": self.words,
            "sentences": len(self.sentences),
            "accuracy_by_tag": {tag: right / total for tag, (total, right) in self.by_tag().items()},
        }
        if self.entities is not None:
            counts = self.entities.all
            found |= {"precision": counts.precision, "recall": counts.recall, "f1": counts.f1, "entities": counts.true}
            found["f1_by_type"] = {name: each.f1 for name, each in self.entities.by_type.items()}
        if self.ceiling is not None:
            found["best_accuracy"] = self.ceiling
        return found


class TaggingTraining:
    """Batches of sentences `<s>` … `</s>`, those of like length together; the first token of a word has its tag."""

    fixed_shapes = False

    def __init__(
        self,
        classes: tuple[str, ...],
        tokenizer: Tokenizer,
        splits: Mapping[str, TaggedSplit],
        *,
        batch_tokens: int,
        seed: int,
        entities: bool,
        ceiling: Mapping[str, float],
    ) -> None:
        self.classes, self.tokenizer, self.splits = classes, tokenizer, dict(splits)
        self.entities, self.ceiling = entities, ceiling
        self.order = Bucketed(_lengths(splits["train"].rows), batch_tokens, seed)

    @property
    def criterion(self) -> Criterion:
        """The highest F1 of entities, or accuracy of tags that mark none."""
        return HIGHEST_F1 if self.entities else HIGHEST_ACCURACY

    def batch(self, indices: Indices) -> Batch:
        """These rows side by side (B, T), their lengths (B,) and the classes of their words' first tokens (B, T)."""
        return self._batch(self.splits["train"], indices)

    def loss(self, model: nn.Module, batch: Batch, *, smoothing: float = 0.0, step: int = 0) -> dict[str, Term]:
        """Cross-entropy of the tags."""
        return {"tag": Term(cross_entropy(model(*batch.inputs), batch.targets, smoothing), batch.count)}

    def validate(self, model: nn.Module, device: torch.device) -> Validated:
        """Nats a word over the whole validation split, the accuracy, and F1 of entities."""
        report = self.evaluate(model, device, "val")
        figures = {"val_accuracy": report.accuracy}
        if report.entities is not None:
            figures["val_f1"] = report.entities.all.f1
        return Validated(report.loss, figures)

    @torch.no_grad()
    def evaluate(self, model: nn.Module, device: torch.device, split: str) -> TaggingReport:
        """The tags that the model gives a split. Raises NonFiniteOutputError for a row that is NaN."""
        held = self.splits[split]
        guesses: list[list[str]] = [[""] * len(each.words) for each in held.sentences]

        def scored(numbers: Indices) -> Tensor:
            batch = self._batch(held, numbers).to(device)
            logits = model(*batch.inputs).float()
            for row, number in enumerate(numbers):
                each = held.rows[int(number)]
                with numbered([each.sentence]):
                    expect_finite(logits[row : row + 1, : len(each.ids)], "sentence")
            return in_one(cross_entropy(logits, batch.targets), logits.argmax(-1))

        nats, batches = 0.0, list(like_length(_lengths(held.rows), EVALUATED))
        for numbers, values in zip(batches, values_in_parts(batches, scored), strict=True):
            nats += float(values[0])
            best = values[1:].view(len(numbers), -1).long().numpy()
            for row, number in enumerate(numbers):
                each = held.rows[int(number)]
                for place, found in enumerate(best[row, each.begins].tolist()):
                    guesses[each.sentence][each.first + place] = self.classes[found]
        found_entities = entity_report([each.tags for each in held.sentences], guesses) if self.entities else None
        return TaggingReport(
            sentences=held.sentences,
            predicted=guesses,
            nats=float(nats),
            entities=found_entities,
            ceiling=self.ceiling.get(split),
        )

    @torch.no_grad()
    def samples(self, model: nn.Module, device: torch.device) -> list[str]:
        """A few sentences of the validation split with the tags the model gives them."""
        held = self.splits["val"]
        numbers = np.unique(np.linspace(0, len(held.rows) - 1, SHOWN).astype(np.int64))
        batch = self._batch(held, numbers).to(device)
        best = model(*batch.inputs).argmax(-1).cpu().numpy()
        lines = []
        for row, number in enumerate(numbers):
            each = held.rows[int(number)]
            words = held.sentences[each.sentence].words[each.first : each.first + len(each.begins)]
            tags = [self.classes[found] for found in best[row, each.begins].tolist()]
            lines.append(
                " ".join(f"{word}/{tag}" if tag != "O" else word for word, tag in zip(words, tags, strict=True))
            )
        return lines

    def _batch(self, held: TaggedSplit, numbers: Indices) -> Batch:
        rows = [held.rows[int(n)] for n in numbers]
        tokens, lengths = padded([row.ids for row in rows], self.tokenizer.pad)  # type: ignore[misc]
        targets = np.full(tokens.shape, IGNORED, np.int64)
        count = 0
        for place, number in enumerate(numbers):
            labels = held.labels[int(number)]
            targets[place, held.rows[int(number)].begins] = labels
            count += len(labels)
        inputs: tuple[Tensor | None, ...] = (torch.from_numpy(tokens), torch.from_numpy(lengths))
        return Batch(inputs, torch.from_numpy(targets), count)


def _lengths(rows: Sequence[WordRow]) -> Indices:
    return np.asarray([len(row.ids) for row in rows], np.int64)
