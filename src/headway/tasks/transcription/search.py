"""The texts of many sounds, in batches of like lengths."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from headway.data.batching import Indices
from headway.data.log_mel import Frames
from headway.data.speech import padded_frames
from headway.data.tokenizers import Tokenizer
from headway.decoding.beam import Hypothesis
from headway.decoding.non_finite import numbered
from headway.tasks.image_batches import model_dtype
from headway.tasks.transcription.config import Transcription
from headway.tasks.transcription.objectives import TranscriptionObjective

EVALUATED = 16_384  # frames in one forward pass, padding included


class TranscriptSearch:
    """Texts of sounds with a task's settings, a run's tokenizer and its model's objective."""

    def __init__(self, config: Transcription, tokenizer: Tokenizer, objective: TranscriptionObjective) -> None:
        self.config, self.tokenizer, self.objective = config, tokenizer, objective

    def tensors(self, model: nn.Module, device: torch.device, sounds: Sequence[Frames]) -> tuple[Tensor, Tensor]:
        """Frames (T, bands) each -> (B, S, bands) as the model reads them, and their lengths (B,)."""
        frames, lengths = padded_frames(sounds)
        return torch.from_numpy(frames).to(device, model_dtype(model)), torch.from_numpy(lengths).to(device)

    def search(
        self,
        model: nn.Module,
        device: torch.device,
        sounds: Sequence[Frames],
        *,
        beam: int | None = None,
        n_best: int = 1,
    ) -> list[list[Hypothesis]]:
        """The best hypotheses for each sound (T, bands), best first."""
        found: list[list[Hypothesis]] = [[] for _ in sounds]
        width = self.config.beam if beam is None else beam
        for rows in like_lengths(np.asarray([len(each) for each in sounds], np.int64)):
            frames, lengths = self.tensors(model, device, [sounds[row] for row in rows])
            with numbered(rows.tolist(), "sound"):
                best = self.objective.search(model, frames, lengths, beam=width, n_best=n_best)
            for row, hypotheses in zip(rows, best, strict=True):
                found[row] = hypotheses
        return found

    def texts(
        self, model: nn.Module, device: torch.device, sounds: Sequence[Frames], *, beam: int | None = None
    ) -> list[str]:
        """The text of each sound."""
        return [self.tokenizer.decode(best[0].tokens) for best in self.search(model, device, sounds, beam=beam)]


def like_lengths(lengths: NDArray[np.int64], most: int = EVALUATED) -> Iterator[Indices]:
    """The numbers of all sounds, the shortest first, in batches of at most `most` padded frames, or one sound."""
    order = np.argsort(lengths, kind="stable")
    start = 0
    for end in range(1, len(order) + 1):
        if end == len(order) or (end + 1 - start) * lengths[order[end]] > most:
            yield order[start:end]
            start = end
