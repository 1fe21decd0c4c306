"""Translation: a target sentence, word by word, given its source."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import nn

from headway.data.batching import Bucketed, Indices, padded
from headway.data.store import TokenStore
from headway.data.tokenizers import Tokenizer
from headway.decoding.beam import Hypothesis, Penalty, Recorder, beam_search
from headway.decoding.recording import TraceRecorder
from headway.decoding.trace import Trace
from headway.errors import DataError
from headway.evaluation.language import LanguageReport
from headway.evaluation.positions import PositionReport, position_report
from headway.models.stepper import Source, Stepper
from headway.tasks.scheduled import ScheduledSampling
from headway.tasks.task import IGNORED, Batch, Term, cross_entropy, next_token_loss
from headway.tasks.tracing import Readers, readable

Recording = Callable[[list[int], Source], AbstractContextManager[Recorder]]  # for these lines, read as this source
EVALUATION_TOKENS = 8192


@dataclass(frozen=True, slots=True, kw_only=True)
class Translation:
    """How pairs are read, and how a finished model decodes unless told otherwise."""

    max_length: int = 256  # longer training pairs are left out, and counted
    beam: int = 4
    length_penalty: float = 0.6
    penalty: Penalty = "gnmt"
    max_extra: int = 50  # a translation may be this much longer than its source
    scheduled: ScheduledSampling | None = None  # None: teacher forcing, every input is a gold token


@dataclass(frozen=True, slots=True)
class Pairs:
    """One split as token ids, source n beside target n."""

    source: TokenStore
    target: TokenStore


@dataclass(frozen=True, slots=True)
class Forced:
    """A split under the gold prefix: how likely it is, and for each line its tokens, stop token last, and guesses."""

    score: LanguageReport
    gold: list[list[int]]
    guesses: list[list[int]]

    def beside(self, free: list[list[int]]) -> PositionReport:
        """These guesses beside the model's own outputs, which come without their stop token."""
        # An output cut off for its length gets one too; its gold would have to end at just that place to notice.
        stop = self.gold[0][-1]
        return position_report(self.gold, self.guesses, [[*line, stop] for line in free])


class TranslationTask:
    """Batches of sentence pairs, and what a model makes of a source."""

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
        self.config, self.splits = config, splits
        self.source_tokenizer, self.target_tokenizer = source_tokenizer, target_tokenizer
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
        source, source_lengths = padded([_ended(pairs.source[n], self.source_tokenizer.stop) for n in rows], 0)
        target, lengths = padded([_ended(pairs.target[n], tokenizer.stop) for n in rows], IGNORED)
        inputs = np.full_like(target, tokenizer.pad)
        inputs[:, 0] = tokenizer.start
        inputs[:, 1:] = np.where(target[:, :-1] == IGNORED, tokenizer.pad, target[:, :-1])
        tensors = tuple(torch.from_numpy(array) for array in (source, inputs, source_lengths, lengths))
        return Batch(tensors, torch.from_numpy(target), int(lengths.sum()))

    def loss(self, model: nn.Module, batch: Batch, *, smoothing: float = 0.0, step: int = 0) -> dict[str, Term]:
        """Next-token cross-entropy on the target."""
        if self.config.scheduled is not None:
            source, target, source_lengths, lengths = batch.inputs
            assert source is not None
            assert target is not None
            read = Source(source, source_lengths)
            mixed = self.config.scheduled.mixed(model, read, target, lengths, step=step)
            batch = replace(batch, inputs=(source, mixed, source_lengths, lengths))
        return {"next_token": Term(next_token_loss(model, batch, smoothing), batch.count)}

    def validate(self, model: nn.Module, device: torch.device) -> float:
        """Nats per target token over the validation pairs, each with its stop token."""
        return self.forced(model, device, "val").score.loss

    @torch.no_grad()
    def forced(self, model: nn.Module, device: torch.device, split: str) -> Forced:
        """What the model thinks of every target token of a split after the ones before it, lines in their order."""
        stop, target = self.target_tokenizer.stop, self._pairs(split).target
        gold = [_ended(target[n], stop).tolist() for n in range(len(target))]
        guesses: list[list[int]] = [[] for _ in gold]
        nats = 0.0
        for rows in self._evaluation_batches(split):
            batch = self._batch(split, rows).to(device)
            logits = model(*batch.inputs)
            nats += float(cross_entropy(logits, batch.targets))
            for n, guessed in zip(rows.tolist(), logits.argmax(-1).tolist(), strict=True):
                guesses[n] = guessed[: len(gold[n])]
        return Forced(LanguageReport(nats, sum(map(len, gold))), gold, guesses)

    def _evaluation_batches(self, split: str) -> Iterator[Indices]:
        pairs = self._pairs(split)
        lengths = np.stack([pairs.source.lengths, pairs.target.lengths], 1) + 1
        yield from Bucketed(lengths, EVALUATION_TOKENS, 0).epoch(0)

    def _pairs(self, split: str) -> Pairs:
        if split not in self.splits:
            raise DataError(f"no split {split!r}, there are {', '.join(self.splits)}")
        return self.splits[split]

    def samples(self, model: nn.Module, device: torch.device) -> list[str]:
        """The first validation sentences, their reference and what the model says."""
        pairs = self.splits["val"]
        rows = range(min(3, len(pairs.source)))
        lines = [self.source_tokenizer.decode(pairs.source[n].tolist()) for n in rows]
        said = self.translate(model, device, lines, beam=1)
        return [f"{line} → {out}" for line, out in zip(lines, said, strict=True)]

    def translate(self, model: nn.Module, device: torch.device, lines: Iterable[str], **settings: Any) -> list[str]:
        """One translation a line, in the order of the lines."""
        return [self.target_tokenizer.decode(ids) for ids in self.outputs(model, device, list(lines), **settings)]

    def outputs(self, model: nn.Module, device: torch.device, lines: list[str], **settings: Any) -> list[list[int]]:
        """The tokens of the best translation of each line, without the stop token; none for an empty source."""
        best = self.hypotheses(model, device, lines, **settings)
        return [found[0].tokens if found else [] for found in best]

    def hypotheses(
        self,
        model: nn.Module,
        device: torch.device,
        lines: list[str],
        *,
        beam: int | None = None,
        length_penalty: float | None = None,
        n_best: int = 1,
        recording: Recording | None = None,
    ) -> list[list[Hypothesis]]:
        """The best lines for each source, best first; an empty source has none. Like lengths are decoded together."""
        stepper: Stepper[Any] = model  # type: ignore[assignment]
        config, tokenizer = self.config, self.target_tokenizer
        width = config.beam if beam is None else beam
        alpha = config.length_penalty if length_penalty is None else length_penalty
        encoded = [np.asarray(ids, np.uint32) for ids in self.source_tokenizer.encode_batch(lines)]
        out: list[list[Hypothesis]] = [[] for _ in lines]
        real = [n for n in range(len(lines)) if len(encoded[n])]
        lengths = np.asarray([len(encoded[n]) + 1 for n in real], np.int64)
        for rows in Bucketed(lengths, max(EVALUATION_TOKENS // width, 1), 0).epoch(0) if real else ():
            chosen = [real[n] for n in rows]
            source, source_lengths = padded([_ended(encoded[n], self.source_tokenizer.stop) for n in chosen], 0)
            read = Source(torch.from_numpy(source).to(device), torch.from_numpy(source_lengths).to(device))
            with nullcontext() if recording is None else recording(chosen, read) as recorder:
                found = beam_search(
                    stepper,
                    read,
                    start=tokenizer.start,
                    stop=tokenizer.stop,
                    beam=width,
                    max_tokens=int(source_lengths.max()) + config.max_extra,
                    alpha=alpha,
                    penalty=config.penalty,
                    n_best=n_best,
                    recorder=recorder,
                )
            for n, hypotheses in zip(chosen, found, strict=True):
                out[n] = hypotheses
        return out

    def traces(
        self,
        model: nn.Module,
        device: torch.device,
        lines: list[str],
        *,
        beam: int | None = None,
        length_penalty: float | None = None,
        n_best: int = 1,
        steps: Iterable[int] = (),
        **settings: Any,
    ) -> list[Trace]:
        """The search behind each line's `hypotheses`; `steps` says which checkpoints the model is made of."""
        width = self.config.beam if beam is None else beam
        alpha = self.config.length_penalty if length_penalty is None else length_penalty
        searches: list[tuple[list[int], TraceRecorder]] = []

        def recording(rows: list[int], source: Source) -> TraceRecorder:
            assert source.lengths is not None
            searches.append((rows, TraceRecorder(model, source.lengths.tolist())))
            return searches[-1][1]

        self.hypotheses(
            model, device, lines, beam=width, length_penalty=alpha, n_best=n_best, recording=recording, **settings
        )
        recorded = {n: recorder.steps(k) for rows, recorder in searches for k, n in enumerate(rows)}
        readers = Readers(self.source_tokenizer, self.target_tokenizer)
        how: dict[str, Any] = {"beam": width, "n_best": n_best, "alpha": alpha, "penalty": self.config.penalty}
        made_of, encoded = tuple(steps), self.source_tokenizer.encode_batch(lines)
        return [
            readable(readers, line, encoded[n], recorded.get(n, ()), model_steps=made_of, **how)
            for n, line in enumerate(lines)
        ]


def _ended(ids: np.ndarray[Any, np.dtype[np.uint32]], stop: int) -> np.ndarray[Any, np.dtype[np.uint32]]:
    return np.append(ids, np.uint32(stop))
