"""Training on sentence pairs: padded batches, teacher forcing, the loss of each target token."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import nn

from headway.data.batching import Bucketed, Indices, fixed_batches
from headway.data.token_store import TokenStore
from headway.data.tokenizers import Tokenizer
from headway.errors import DataError
from headway.models.stepper import EncoderInput
from headway.tasks.adaptive_depth import mean_steps, pondered
from headway.tasks.base import named_split
from headway.tasks.sharing import in_parts
from headway.tasks.training_task import IGNORED, Batch, Term, cross_entropy, next_token_loss
from headway.tasks.translation.config import Translation
from headway.tasks.translation.search import EVALUATION_TOKENS, TranslationSearch, ended

if TYPE_CHECKING:
    from headway.metrics.accuracy_by_position import PositionReport
    from headway.metrics.language import LanguageReport


@dataclass(frozen=True, slots=True)
class Pairs:
    """One split as token ids, source n beside target n."""

    source: TokenStore
    target: TokenStore


@dataclass(frozen=True, slots=True)
class TeacherForced:
    """A split under the gold prefix: how likely it is, and for each line its tokens, stop token last, and guesses."""

    score: LanguageReport
    gold: list[list[int]]
    guesses: list[list[int]]
    steps: dict[str, float]  # the mean steps a token took, by JSON key, where the model chooses

    def beside(self, free: list[list[int]]) -> PositionReport:
        """These guesses beside the model's own outputs, which come without their stop token."""
        from headway.metrics.accuracy_by_position import position_report

        # An output cut off for its length gets one too; its gold would have to end at just that place to notice.
        stop = self.gold[0][-1]
        return position_report(self.gold, self.guesses, [[*line, stop] for line in free])


class TranslationTraining(TranslationSearch):
    """Batches of sentence pairs, and what a model makes of a source."""

    fixed_shapes = False

    def __init__(
        self,
        config: Translation,
        source_tokenizer: Tokenizer,
        target_tokenizer: Tokenizer,
        splits: dict[str, Pairs],
        *,
        batch_tokens: int,
        seed: int,
    ) -> None:
        super().__init__(config, source_tokenizer, target_tokenizer)
        self.splits = splits
        if "train" in splits:
            train = splits["train"]
            lengths = np.stack([train.source.lengths, train.target.lengths], 1) + 1  # each gains a start or stop token
            self.kept = np.flatnonzero(lengths.max(1) <= config.max_length)
            if not len(self.kept):
                raise DataError(f"every training pair is longer than task.max_length={config.max_length}")
            self.order = Bucketed(lengths[self.kept], batch_tokens, seed)

    def batch(self, indices: Indices) -> Batch:
        """These training pairs, padded."""
        return self._batch("train", self.kept[indices])

    def _batch(self, split: str, rows: Indices) -> Batch:
        pairs, tokenizer = self.splits[split], self.target_tokenizer
        source, source_lengths = pairs.source.padded(rows, stop=self.source_tokenizer.stop, pad=0)
        target, lengths = pairs.target.padded(rows, stop=tokenizer.stop, pad=IGNORED)
        inputs = np.full_like(target, tokenizer.pad)
        inputs[:, 0] = tokenizer.start
        inputs[:, 1:] = np.where(target[:, :-1] == IGNORED, tokenizer.pad, target[:, :-1])
        tensors = tuple(torch.from_numpy(array) for array in (source, inputs, source_lengths, lengths))
        return Batch(tensors, torch.from_numpy(target), int(lengths.sum()))

    def loss(self, model: nn.Module, batch: Batch, *, smoothing: float = 0.0, step: int = 0) -> dict[str, Term]:
        """Next-token cross-entropy on the target, and the ponder loss of a model with adaptive depth."""
        if self.config.scheduled is not None:
            source, target, source_lengths, lengths = batch.inputs
            assert source is not None
            assert target is not None
            read = EncoderInput(source, source_lengths)
            mixed = self.config.scheduled.mixed(model, read, target, lengths, step=step)
            batch = replace(batch, inputs=(source, mixed, source_lengths, lengths))
        terms: dict[str, Term] = {}
        with pondered(model, terms, batch.count):
            terms["next_token"] = Term(next_token_loss(model, batch, smoothing), batch.count)
        return terms

    @torch.no_grad()
    def validate(self, model: nn.Module, device: torch.device) -> float:
        """Nats per target token over the validation pairs, each with its stop token."""

        def scored(rows: Indices) -> tuple[float, int]:
            batch = self._batch("val", rows).to(device)
            return float(cross_entropy(model(*batch.inputs), batch.targets)), batch.count

        found = in_parts(self._evaluation_batches("val"), scored)
        nats, count = (sum(column) for column in zip(*found, strict=True))
        return float(nats / count)

    @torch.no_grad()
    def forced(self, model: nn.Module, device: torch.device, split: str) -> TeacherForced:
        """Log-probabilities of every target token of a split after the gold prefix, lines in their order."""
        from headway.metrics.language import LanguageReport

        stop, target = self.target_tokenizer.stop, self._pairs(split).target
        gold = [ended(target[n], stop).tolist() for n in range(len(target))]
        guesses: list[list[int]] = [[] for _ in gold]
        nats = 0.0
        with mean_steps(model) as steps:
            for rows in self._evaluation_batches(split):
                batch = self._batch(split, rows).to(device)
                logits = model(*batch.inputs)
                nats += float(cross_entropy(logits, batch.targets))
                for n, guessed in zip(rows.tolist(), logits.argmax(-1).tolist(), strict=True):
                    guesses[n] = guessed[: len(gold[n])]
        return TeacherForced(LanguageReport(nats, sum(map(len, gold))), gold, guesses, steps)

    def _evaluation_batches(self, split: str) -> Iterator[Indices]:
        pairs = self._pairs(split)
        lengths = np.stack([pairs.source.lengths, pairs.target.lengths], 1) + 1
        yield from fixed_batches(lengths, EVALUATION_TOKENS)

    def _pairs(self, split: str) -> Pairs:
        return named_split(self.splits, split)

    def samples(self, model: nn.Module, device: torch.device) -> list[str]:
        """The first validation sentences, their reference and what the model says."""
        pairs = self.splits["val"]
        rows = range(min(3, len(pairs.source)))
        lines = [self.source_tokenizer.decode(pairs.source[n].tolist()) for n in rows]
        said = self.translate(model, device, lines, beam=1)
        return [f"{line} → {out}" for line, out in zip(lines, said, strict=True)]
