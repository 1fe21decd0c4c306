"""Training on sounds with texts: padded batches of like lengths, and the loss and the texts of a model on a split."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain

import numpy as np
import torch
from torch import Tensor, nn

from headway.data.batching import Bucketed, Indices
from headway.data.speech import TranscribedSounds, padded_frames
from headway.data.token_store import TokenStore
from headway.data.tokenizers import Tokenizer
from headway.decoding.non_finite import numbered
from headway.errors import DataError, UnknownCharacterError
from headway.metrics.language import LanguageReport
from headway.metrics.transcription import TranscriptReport, transcript_report
from headway.tasks.base import named_split
from headway.tasks.image_batches import model_dtype
from headway.tasks.sharing import in_parts, texts_in_parts
from headway.tasks.training_task import Batch, Term, Validated
from headway.tasks.transcription.config import Transcription
from headway.tasks.transcription.objectives import TranscriptionObjective
from headway.tasks.transcription.search import TranscriptSearch, like_lengths

SHOWN = 3  # samples of a validation


class TranscriptionTraining(TranscriptSearch):
    """Batches of sounds with a text each, and the texts and loss of a model on a split."""

    fixed_shapes = False

    def __init__(
        self,
        config: Transcription,
        tokenizer: Tokenizer,
        objective: TranscriptionObjective,
        splits: Mapping[str, TranscribedSounds],
        *,
        batch_tokens: int,
        seed: int,
    ) -> None:
        super().__init__(config, tokenizer, objective)
        self.splits = dict(splits)
        self._known: dict[str, TokenStore] = {}
        if "train" in splits:
            self.order = Bucketed(splits["train"].lengths, batch_tokens, seed)

    def tokens(self, split: str) -> TokenStore:
        """A split's texts as tokens, encoded on first use.

        Raises DataError naming the place of a text that the vocabulary or the model cannot write.
        """
        sounds = self.sounds(split)
        if split not in self._known:
            lines = self._encoded(sounds)
            for frames, line, place in zip(sounds.lengths, lines, sounds.places, strict=True):
                self.objective.check(int(frames), line, place)
            starts = np.cumsum([0, *map(len, lines)], dtype=np.int64)
            self._known[split] = TokenStore(np.fromiter(chain.from_iterable(lines), np.uint32, int(starts[-1])), starts)
        return self._known[split]

    def _encoded(self, sounds: TranscribedSounds) -> list[list[int]]:
        try:
            return self.tokenizer.encode_batch(sounds.texts)
        except UnknownCharacterError as error:
            pairs = zip(sounds.places, sounds.texts, strict=True)
            place = next(place for place, text in pairs if error.character in text)
            raise DataError(f"{place}: {error}; the model can only write characters of its training texts") from None

    def sounds(self, split: str) -> TranscribedSounds:
        """The sounds of a split. Raises DataError if there is no such split."""
        return named_split(self.splits, split)

    def batch(self, indices: Indices) -> Batch:
        """These training sounds and their texts, padded."""
        return self._batch("train", indices)

    def _batch(self, split: str, rows: Indices) -> Batch:
        sounds = self.splits[split]
        frames, lengths = padded_frames([sounds[int(row)] for row in rows])
        return self.objective.batch(torch.from_numpy(frames), torch.from_numpy(lengths), self.tokens(split), rows)

    def loss(self, model: nn.Module, batch: Batch, *, smoothing: float = 0.0, step: int = 0) -> dict[str, Term]:
        """The loss of the model's objective."""
        return {self.objective.term: Term(self.objective.loss(model, batch, smoothing), batch.count)}

    def validate(self, model: nn.Module, device: torch.device) -> Validated:
        """Nats per token over the validation texts, the word error rate and exact matches of greedy decoding."""
        report = self.report(self.transcripts(model, device, "val", beam=1), "val")
        figures = {"val_wer": report.words.rate, "val_exact_match": report.exact_match}
        return Validated(self.forced(model, device, "val").loss, figures)

    @torch.no_grad()
    def forced(self, model: nn.Module, device: torch.device, split: str) -> LanguageReport:
        """The loss of a split's texts; with a decoder, of every token after the gold tokens before it."""

        def scored(rows: Indices) -> tuple[float, float]:
            batch = self._batch(split, rows).to(device)
            frames, *rest = batch.inputs
            assert isinstance(frames, Tensor)
            batch = Batch((frames.to(model_dtype(model)), *rest), batch.targets, batch.count)
            return float(self.objective.loss(model, batch)), float(batch.count)

        nats, count = map(sum, zip(*in_parts(like_lengths(self.sounds(split).lengths), scored), strict=True))
        return LanguageReport(nats, int(count))

    def transcripts(self, model: nn.Module, device: torch.device, split: str, *, beam: int | None = None) -> list[str]:
        """The text of each sound of a split."""
        sounds = self.sounds(split)
        batches = list(like_lengths(sounds.lengths))

        def written(rows: Indices) -> list[str]:
            with numbered(rows.tolist(), "sound"):
                return self.texts(model, device, [sounds[n] for n in rows], beam=beam)

        found = dict(zip(chain.from_iterable(batches), texts_in_parts(batches, written), strict=True))
        return [found[n] for n in range(len(sounds))]

    def report(self, outputs: Sequence[str], split: str) -> TranscriptReport:
        """The figures of a model's transcripts of a split."""
        return transcript_report(self.splits[split].texts, outputs)

    def samples(self, model: nn.Module, device: torch.device) -> list[str]:
        """Some validation sounds: the text and the greedy transcript."""
        sounds = self.splits["val"]
        rows = np.unique(np.linspace(0, len(sounds) - 1, SHOWN).astype(np.int64))
        outputs = self.texts(model, device, [sounds[int(row)] for row in rows], beam=1)
        return [f"{sounds.texts[row]} → {text}" for row, text in zip(rows, outputs, strict=True)]
