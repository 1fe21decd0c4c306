"""Beam search on source sentences: batches of like lengths, the settings of a task, traces."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from headway.data.batching import fixed_batches, padded
from headway.data.tokenizers import Tokenizer
from headway.decoding.beam import BeamSettings, Hypothesis, Recorder, beam_search
from headway.decoding.constraints import Constraints
from headway.decoding.limits import SequenceLimits, positions_end
from headway.decoding.non_finite import numbered
from headway.limits import expect_within
from headway.models.stepper import EncoderInput, Stepper
from headway.tasks.base import Progress, ignore
from headway.tasks.translation.config import PLAIN, Decoding, Translation

if TYPE_CHECKING:
    from headway.decoding.trace import Trace
    from headway.decoding.trace.recorder import TraceRecorder

Recording = Callable[
    [list[int], EncoderInput], AbstractContextManager[Recorder]
]  # for these lines, read as this source
EVALUATION_TOKENS = 8192


class TranslationSearch:
    """What a model makes of sources: needs the task's settings and its tokenizers, no data."""

    def __init__(self, config: Translation, source_tokenizer: Tokenizer, target_tokenizer: Tokenizer) -> None:
        self.config, self.source_tokenizer, self.target_tokenizer = config, source_tokenizer, target_tokenizer

    def translate(
        self, model: nn.Module, device: torch.device, lines: Iterable[str], *, beam: int | None = None
    ) -> list[str]:
        """One translation a line, in the order of the lines, each line whole."""
        return [self.target_tokenizer.decode(ids) for ids in self.outputs(model, device, list(lines), beam=beam)]

    def outputs(
        self,
        model: nn.Module,
        device: torch.device,
        lines: list[str],
        *,
        beam: int | None = None,
        progress: Progress = ignore,
    ) -> list[list[int]]:
        """The tokens of the best translation of each line, without the stop token; none for an empty source."""
        best = self.hypotheses(model, device, lines, Decoding(beam=beam), progress=progress)
        return [found[0].tokens if found else [] for found in best]

    def hypotheses(
        self,
        model: nn.Module,
        device: torch.device,
        lines: list[str],
        decoding: Decoding = PLAIN,
        *,
        progress: Progress = ignore,
    ) -> list[list[Hypothesis]]:
        """The best translations of each line, best first; an empty source has none."""
        sources = self.source_tokenizer.encode_batch(lines)
        return self.search(model, device, sources, decoding, progress=progress)  # type: ignore[arg-type]

    def search(
        self,
        model: Stepper[Any],
        device: torch.device,
        sources: Sequence[Sequence[int]],
        decoding: Decoding = PLAIN,
        recording: Recording | None = None,
        *,
        progress: Progress = ignore,
    ) -> list[list[Hypothesis]]:
        """The best lines for each source's tokens, best first; an empty source has none. Like lengths go together.

        A translation may have `max_extra` tokens more than its source, whatever else is in the batch.
        """
        config, tokenizer = self.config, self.target_tokenizer
        wanted = _never(tokenizer) if decoding.constraints is None else decoding.constraints & _never(tokenizer)
        beam = self._beam(decoding)
        extra = config.max_extra if decoding.max_extra is None else decoding.max_extra
        expect_within("output-tokens", extra, "max_extra")
        most = positions_end(model)
        out: list[list[Hypothesis]] = [[] for _ in sources]
        before = before_source(self.source_tokenizer)
        real, done = [n for n, ids in enumerate(sources) if len(ids)], 0
        lengths = np.asarray([len(before) + len(sources[n]) + 1 for n in real], np.int64)
        for rows in fixed_batches(lengths, max(EVALUATION_TOKENS // beam.width, 1)) if real else ():
            chosen = [real[n] for n in rows]
            stop = self.source_tokenizer.stop
            stopped = [ended(np.asarray([*before, *sources[n]], np.uint32), stop) for n in chosen]
            tokens, counts = (torch.from_numpy(part).to(device) for part in padded(stopped, 0))
            source = EncoderInput(tokens, counts)
            with nullcontext() if recording is None else recording(chosen, source) as recorder:
                lengths_B = counts + extra if most is None else (counts + extra).clamp(max=most)
                limits = SequenceLimits(start=tokenizer.start, stop=tokenizer.stop, max_tokens=lengths_B)
                with numbered(chosen):
                    found = beam_search(model, source, beam, limits, wanted or None, recorder)
            for n, hypotheses in zip(chosen, found, strict=True):
                out[n] = hypotheses
            done += len(chosen)
            progress(f"translating with beam {beam.width}", done, len(real))
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
        from headway.tasks.translation.traces import TokenizerPair, to_trace

        searches: list[tuple[list[int], TraceRecorder]] = []

        def recording(rows: list[int], source: EncoderInput) -> TraceRecorder:
            assert source.lengths is not None
            searches.append((rows, TraceRecorder(model, source.lengths.tolist())))
            return searches[-1][1]

        found = self.search(model, device, sources, decoding, recording)
        recorded = {n: recorder.steps(k) for rows, recorder in searches for k, n in enumerate(rows)}
        readers, made_of = TokenizerPair(self.source_tokenizer, self.target_tokenizer), tuple(steps)
        beam = self._beam(decoding)
        traces = [
            to_trace(readers, line, ids, recorded.get(n, ()), beam=beam, model_steps=made_of)
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


def before_source(tokenizer: Tokenizer) -> tuple[int, ...]:
    """What an imported model wants in front of every source."""
    return tokenizer.marks.before if tokenizer.marks else ()


def _never(tokenizer: Tokenizer) -> Constraints:
    """What an imported model's config says it must not write."""
    banned = tokenizer.marks.banned if tokenizer.marks else ()
    return Constraints(banned=tuple((token,) for token in banned))


def ended(ids: np.ndarray[Any, np.dtype[np.uint32]], stop: int) -> np.ndarray[Any, np.dtype[np.uint32]]:
    """Tokens with the stop token behind them."""
    return np.append(ids, np.uint32(stop))
