"""Batches of strings, their loss and accuracy."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

from headway.data.batching import Bucketed, Indices, padded
from headway.data.labelled_text import LabelledTexts
from headway.tasks.training_task import Batch, Term, Validated, cross_entropy


class EchoTraining:
    """Strings by split, as the trainer sees them."""

    fixed_shapes = False

    def __init__(self, texts: LabelledTexts, *, batch_tokens: int, seed: int) -> None:
        self.splits, self.classes, self.tokenizer = texts.splits, texts.classes, texts.tokenizer
        self.order = Bucketed(texts.splits["train"].lengths, batch_tokens, seed)

    def batch(self, indices: Indices) -> Batch:
        """These strings of the training split."""
        return self.rows("train", indices)

    def rows(self, split: str, indices: Indices) -> Batch:
        """Strings of a split (B, T), their lengths (B,) and classes (B,)."""
        texts = self.splits[split]
        tokens, lengths = padded([texts.tokens(int(n)) for n in indices], self.tokenizer.pad)
        labels = torch.from_numpy(texts.labels[indices])
        return Batch((torch.from_numpy(tokens), torch.from_numpy(lengths)), labels, len(indices))

    def loss(self, model: nn.Module, batch: Batch, *, smoothing: float = 0.0, step: int = 0) -> dict[str, Term]:
        """Cross-entropy of the classes."""
        return {"class": Term(cross_entropy(model(*batch.inputs), batch.targets, smoothing), batch.count)}

    @torch.no_grad()
    def evaluate(self, model: nn.Module, device: torch.device, split: str) -> tuple[float, float]:
        """The loss in nats a string, and the share of strings whose class is right."""
        batch = self.rows(split, np.arange(len(self.splits[split].labels))).to(device)
        logits = model(*batch.inputs)
        right = (logits.argmax(-1) == batch.targets).float().mean()
        return float(cross_entropy(logits, batch.targets)) / batch.count, float(right)

    def validate(self, model: nn.Module, device: torch.device) -> Validated:
        """The figures of the validation split."""
        loss, accuracy = self.evaluate(model, device, "val")
        return Validated(loss, {"val_accuracy": accuracy})

    def samples(self, model: nn.Module, device: torch.device) -> list[str]:
        """None."""
        return []
