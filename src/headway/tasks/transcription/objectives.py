"""What a transcriber is trained by, and how its output becomes text: next tokens or CTC, as its model's config says."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headway.data.batching import Indices
from headway.data.token_store import TokenStore
from headway.data.tokenizers import Tokenizer
from headway.decoding.beam import BeamSettings, Hypothesis, beam_search
from headway.decoding.ctc import ctc_search, needed_moments
from headway.decoding.limits import SequenceLimits
from headway.errors import ConfigError, DataError
from headway.models.stepper import EncoderInput, Stepper
from headway.tasks.training_task import IGNORED, Batch, cross_entropy, next_token_loss
from headway.tasks.transcription.config import Transcription

if TYPE_CHECKING:
    from headway.models import ModelConfig


class TranscriptionObjective(ABC):
    """Batches, a loss and a search, with a task's settings and a run's tokenizer."""

    term: str  # the name of its loss

    def __init__(self, config: Transcription, tokenizer: Tokenizer, model: ModelConfig) -> None:
        self.config, self.tokenizer, self.model_config = config, tokenizer, model

    def check(self, frames: int, tokens: Sequence[int], place: str) -> None:
        """Raise DataError for a text that is too long for the model or for this number of frames."""
        most = self.config.max_length - 1
        if len(tokens) > most:
            raise DataError(
                f"{place}: a text of {len(tokens):,} tokens, allowed: up to {most:,} "
                f"(task.max_length={self.config.max_length} with the stop token)"
            )

    @abstractmethod
    def batch(self, frames: Tensor, lengths: Tensor, store: TokenStore, rows: Indices) -> Batch:
        """Frames (B, S, bands) with lengths (B,), and the texts of these rows."""

    @abstractmethod
    def loss(self, model: nn.Module, batch: Batch, smoothing: float = 0.0) -> Tensor:
        """The summed loss of a batch's targets in nats."""

    @abstractmethod
    def search(
        self, model: nn.Module, frames: Tensor, lengths: Tensor, *, beam: int, n_best: int = 1
    ) -> list[list[Hypothesis]]:
        """The best texts of each sound, best first."""


class NextTokenObjective(TranscriptionObjective):
    """Teacher forcing of a decoder, and beam search."""

    term = "next_token"

    def batch(self, frames: Tensor, lengths: Tensor, store: TokenStore, rows: Indices) -> Batch:
        """Inputs: frames, tokens that begin with the start token, lengths of both; targets end with the stop token."""
        tokenizer = self.tokenizer
        targets, counts = store.padded(rows, stop=tokenizer.stop, pad=IGNORED)
        inputs = np.full_like(targets, tokenizer.pad)
        inputs[:, 0] = tokenizer.start
        inputs[:, 1:] = np.where(targets[:, :-1] == IGNORED, tokenizer.pad, targets[:, :-1])
        given = (frames, torch.from_numpy(inputs), lengths, torch.from_numpy(counts))
        return Batch(given, torch.from_numpy(targets), int(counts.sum()))

    def loss(self, model: nn.Module, batch: Batch, smoothing: float = 0.0) -> Tensor:
        """Next-token cross-entropy."""
        if model.training:
            return next_token_loss(model, batch, smoothing)
        return cross_entropy(model(*batch.inputs), batch.targets)

    def search(
        self, model: nn.Module, frames: Tensor, lengths: Tensor, *, beam: int, n_best: int = 1
    ) -> list[list[Hypothesis]]:
        """Beam search."""
        stepper: Stepper[Any] = model  # type: ignore[assignment]
        limits = SequenceLimits(start=self.tokenizer.start, stop=self.tokenizer.stop, max_tokens=self.config.max_length)
        return beam_search(
            stepper, EncoderInput.of_frames(frames, lengths), beam_settings(self.config, beam, n_best), limits
        )


def beam_settings(config: Transcription, beam: int, n_best: int = 1) -> BeamSettings:
    """The settings of a decoder's search.

    A text of characters is long and its tokens are almost certain: by the rule "first" the search would end with texts
    that stop too early, each of little probability, before the whole one is written.
    """
    return BeamSettings(
        width=beam, alpha=config.length_penalty, penalty=config.penalty, n_best=n_best, stop_rule="best"
    )


class CtcObjective(TranscriptionObjective):
    """Connectionist temporal classification (Graves et al. 2006)."""

    term = "ctc"

    def check(self, frames: int, tokens: Sequence[int], place: str) -> None:
        """Also raise DataError for a text that has more tokens than the sound has moments."""
        super().check(frames, tokens, place)
        there, needed = cast(Any, self.model_config).moments(frames), needed_moments(tokens)
        if needed > there:
            seconds = frames / self.config.sound.frames_per_second
            raise DataError(
                f"{place}: a sound of {seconds:.2f} s has {there:,} outputs, its text needs {needed:,} (CTC: one a "
                "token and one between equal tokens); a smaller task.sound.hop or smaller model.strides give more"
            )

    def batch(self, frames: Tensor, lengths: Tensor, store: TokenStore, rows: Indices) -> Batch:
        """Inputs: frames and their lengths; targets without special tokens."""
        tokens = [torch.from_numpy(store[int(row)].astype(np.int64)) for row in rows]
        targets = nn.utils.rnn.pad_sequence(tokens, batch_first=True, padding_value=IGNORED)
        return Batch((frames, lengths), targets, sum(map(len, tokens)))

    def loss(self, model: nn.Module, batch: Batch, smoothing: float = 0.0) -> Tensor:
        """The negative log-probability of the texts, summed over all alignments."""
        if smoothing:
            raise ConfigError(f"train.label_smoothing={smoothing}, allowed with CTC: 0")
        transcriber: Any = model
        sound = transcriber.encode(*batch.inputs)
        log_probs = transcriber.read(sound.vectors).float().log_softmax(-1).transpose(0, 1)
        counts = (batch.targets != IGNORED).sum(1)
        return F.ctc_loss(
            log_probs,
            batch.targets.clamp(min=0),
            sound.lengths,
            counts,
            blank=transcriber.blank,
            reduction="sum",
        )

    def search(
        self, model: nn.Module, frames: Tensor, lengths: Tensor, *, beam: int, n_best: int = 1
    ) -> list[list[Hypothesis]]:
        """The best path, or a prefix beam search."""
        transcriber: Any = model
        with torch.inference_mode():
            sound = transcriber.encode(frames, lengths)
            logits = transcriber.read(sound.vectors)
        return ctc_search(logits, sound.lengths, blank=transcriber.blank, width=beam, n_best=n_best)


_OBJECTIVES: dict[str, type[TranscriptionObjective]] = {"next-token": NextTokenObjective, "ctc": CtcObjective}


def objective_of(config: Transcription, tokenizer: Tokenizer, model: ModelConfig) -> TranscriptionObjective:
    """The objective that a model's config names."""
    return _OBJECTIVES[cast(Any, model).objective](config, tokenizer, model)
