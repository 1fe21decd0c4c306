"""Translation: a target sentence, word by word, given its source."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from headway.data.batching import Bucketed, Indices, padded
from headway.data.token_store import TokenStore
from headway.data.tokenizers import Tokenizer
from headway.decoding.beam import BeamSettings, Hypothesis, Penalty, Recorder, StopRule, beam_search
from headway.decoding.constraints import Constraints
from headway.decoding.ensemble import Ensemble
from headway.decoding.limits import SequenceLimits
from headway.errors import DataError
from headway.models.stepper import Source, Stepper
from headway.nn.positions import InputPositions
from headway.tasks.adaptive_depth import mean_steps, pondered
from headway.tasks.training_task import IGNORED, Batch, Term, cross_entropy, next_token_loss
from headway.tasks.translation.scheduled_sampling import ScheduledSampling

if TYPE_CHECKING:
    from headway.decoding.trace import Trace
    from headway.decoding.trace.recorder import TraceRecorder
    from headway.metrics.accuracy_by_position import PositionReport
    from headway.metrics.language import LanguageReport

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoding:
    """How sources are decoded; None stands for what the run's task says."""

    beam: int | None = None
    length_penalty: float | None = None
    n_best: int = 1
    stop_rule: StopRule = "first"
    groups: int = 1
    diversity: float = 0.5
    max_extra: int | None = None
    constraints: Constraints | None = None


PLAIN = Decoding()


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
    steps: dict[str, float]  # the mean steps a token took, by JSON key, where the model chooses

    def beside(self, free: list[list[int]]) -> PositionReport:
        """These guesses beside the model's own outputs, which come without their stop token."""
        from headway.metrics.accuracy_by_position import position_report

        # An output cut off for its length gets one too; its gold would have to end at just that place to notice.
        stop = self.gold[0][-1]
        return position_report(self.gold, self.guesses, [[*line, stop] for line in free])


class TranslationTask:
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
        source, source_lengths = pairs.source.padded(rows, stop=self.source_tokenizer.stop, pad=0)
        target, lengths = pairs.target.padded(rows, stop=tokenizer.stop, pad=IGNORED)
        inputs = np.full_like(target, tokenizer.pad)
        inputs[:, 0] = tokenizer.start
        inputs[:, 1:] = np.where(target[:, :-1] == IGNORED, tokenizer.pad, target[:, :-1])
        tensors = tuple(torch.from_numpy(array) for array in (source, inputs, source_lengths, lengths))
        return Batch(tensors, torch.from_numpy(target), int(lengths.sum()))

    def loss(self, model: nn.Module, batch: Batch, *, smoothing: float = 0.0, step: int = 0) -> dict[str, Term]:
        """Next-token cross-entropy on the target, and what it cost to think."""
        if self.config.scheduled is not None:
            source, target, source_lengths, lengths = batch.inputs
            assert source is not None
            assert target is not None
            read = Source(source, source_lengths)
            mixed = self.config.scheduled.mixed(model, read, target, lengths, step=step)
            batch = replace(batch, inputs=(source, mixed, source_lengths, lengths))
        terms: dict[str, Term] = {}
        with pondered(model, terms, batch.count):
            terms["next_token"] = Term(next_token_loss(model, batch, smoothing), batch.count)
        return terms

    def validate(self, model: nn.Module, device: torch.device) -> float:
        """Nats per target token over the validation pairs, each with its stop token."""
        return self.forced(model, device, "val").score.loss

    @torch.no_grad()
    def forced(self, model: nn.Module, device: torch.device, split: str) -> Forced:
        """What the model thinks of every target token of a split after the ones before it, lines in their order."""
        from headway.metrics.language import LanguageReport

        stop, target = self.target_tokenizer.stop, self._pairs(split).target
        gold = [_ended(target[n], stop).tolist() for n in range(len(target))]
        guesses: list[list[int]] = [[] for _ in gold]
        nats = 0.0
        with mean_steps(model) as steps:
            for rows in self._evaluation_batches(split):
                batch = self._batch(split, rows).to(device)
                logits = model(*batch.inputs)
                nats += float(cross_entropy(logits, batch.targets))
                for n, guessed in zip(rows.tolist(), logits.argmax(-1).tolist(), strict=True):
                    guesses[n] = guessed[: len(gold[n])]
        return Forced(LanguageReport(nats, sum(map(len, gold))), gold, guesses, steps)

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

    def translate(
        self, model: nn.Module, device: torch.device, lines: Iterable[str], *, beam: int | None = None
    ) -> list[str]:
        """One translation a line, in the order of the lines, each line whole."""
        return [self.target_tokenizer.decode(ids) for ids in self.outputs(model, device, list(lines), beam=beam)]

    def outputs(
        self, model: nn.Module, device: torch.device, lines: list[str], *, beam: int | None = None
    ) -> list[list[int]]:
        """The tokens of the best translation of each line, without the stop token; none for an empty source."""
        best = self.hypotheses(model, device, lines, Decoding(beam=beam))
        return [found[0].tokens if found else [] for found in best]

    def hypotheses(
        self,
        model: nn.Module,
        device: torch.device,
        lines: list[str],
        decoding: Decoding = PLAIN,
    ) -> list[list[Hypothesis]]:
        """The best translations of each line, best first; an empty source has none."""
        sources = self.source_tokenizer.encode_batch(lines)
        return self.search(model, device, sources, decoding)  # type: ignore[arg-type]

    def search(
        self,
        model: Stepper[Any],
        device: torch.device,
        sources: Sequence[Sequence[int]],
        decoding: Decoding = PLAIN,
        recording: Recording | None = None,
    ) -> list[list[Hypothesis]]:
        """The best lines for each source's tokens, best first; an empty source has none. Like lengths go together.

        A line may have `max_extra` tokens more than its source, whatever is decoded beside it.
        """
        config, tokenizer = self.config, self.target_tokenizer
        wanted = _never(tokenizer) if decoding.constraints is None else decoding.constraints & _never(tokenizer)
        beam = self._beam(decoding)
        extra = config.max_extra if decoding.max_extra is None else decoding.max_extra
        most = positions_end(model)
        out: list[list[Hypothesis]] = [[] for _ in sources]
        before = before_source(self.source_tokenizer)
        real = [n for n, ids in enumerate(sources) if len(ids)]
        lengths = np.asarray([len(before) + len(sources[n]) + 1 for n in real], np.int64)
        for rows in Bucketed(lengths, max(EVALUATION_TOKENS // beam.width, 1), 0).epoch(0) if real else ():
            chosen = [real[n] for n in rows]
            stop = self.source_tokenizer.stop
            stopped = [_ended(np.asarray([*before, *sources[n]], np.uint32), stop) for n in chosen]
            tokens, counts = (torch.from_numpy(part).to(device) for part in padded(stopped, 0))
            source = Source(tokens, counts)
            with nullcontext() if recording is None else recording(chosen, source) as recorder:
                lengths_B = counts + extra if most is None else (counts + extra).clamp(max=most)
                limits = SequenceLimits(start=tokenizer.start, stop=tokenizer.stop, max_tokens=lengths_B)
                found = beam_search(model, source, beam, limits, wanted or None, recorder)
            for n, hypotheses in zip(chosen, found, strict=True):
                out[n] = hypotheses
        return out

    def traced(
        self,
        model: Stepper[Any],
        device: torch.device,
        lines: Sequence[str],
        sources: Sequence[Sequence[int]],
        decoding: Decoding = PLAIN,
        *,
        steps: Iterable[int] = (),
    ) -> tuple[list[list[Hypothesis]], list[Trace]]:
        """What `search` finds for these lines and their tokens, and the search itself.

        `steps` says which checkpoints the model is made of.
        """
        from headway.decoding.trace.recorder import TraceRecorder  # few searches are recorded
        from headway.tasks.translation.traces import Readers, readable

        searches: list[tuple[list[int], TraceRecorder]] = []

        def recording(rows: list[int], source: Source) -> TraceRecorder:
            assert source.lengths is not None
            searches.append((rows, TraceRecorder(model, source.lengths.tolist())))
            return searches[-1][1]

        found = self.search(model, device, sources, decoding, recording)
        recorded = {n: recorder.steps(k) for rows, recorder in searches for k, n in enumerate(rows)}
        readers, made_of = Readers(self.source_tokenizer, self.target_tokenizer), tuple(steps)
        beam = self._beam(decoding)
        traces = [
            readable(readers, line, ids, recorded.get(n, ()), beam=beam, model_steps=made_of)
            for n, (line, ids) in enumerate(zip(lines, sources, strict=True))
        ]
        return found, traces

    def _beam(self, decoding: Decoding) -> BeamSettings:
        """The beam search of these settings, with the task's own where they leave a choice open."""
        return BeamSettings(
            width=self.config.beam if decoding.beam is None else decoding.beam,
            alpha=self.config.length_penalty if decoding.length_penalty is None else decoding.length_penalty,
            penalty=self.config.penalty,
            n_best=decoding.n_best,
            stop_rule=decoding.stop_rule,
            groups=decoding.groups,
            diversity=decoding.diversity,
        )


def positions_end(model: object) -> int | None:
    """How many tokens the model can number: where the shortest table of learned positions ends, None without one."""
    parts = model.models if isinstance(model, Ensemble) else [model]
    modules = (module for part in parts if isinstance(part, nn.Module) for module in part.modules())
    ends = [each.context for each in modules if isinstance(each, InputPositions) and each.table is not None]
    return min(ends, default=None)


def before_source(tokenizer: Tokenizer) -> tuple[int, ...]:
    """What an imported model wants in front of every source."""
    return tokenizer.marks.before if tokenizer.marks else ()


def _never(tokenizer: Tokenizer) -> Constraints:
    """What an imported model's config says it must not write."""
    banned = tokenizer.marks.banned if tokenizer.marks else ()
    return Constraints(banned=tuple((token,) for token in banned))


def _ended(ids: np.ndarray[Any, np.dtype[np.uint32]], stop: int) -> np.ndarray[Any, np.dtype[np.uint32]]:
    return np.append(ids, np.uint32(stop))
