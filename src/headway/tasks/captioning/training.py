"""Captioning: a sentence about an image, word by word."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from headway.config import positive
from headway.data.augment import Augmentation
from headway.data.batching import Indices, Shuffled
from headway.data.captions import Captioned, Captions
from headway.data.config import DataConfig
from headway.data.datasets import load_captions
from headway.data.digests import expect_contents
from headway.data.image_decoding import Pixels
from headway.data.images import ImageReading, Progress
from headway.data.token_store import TokenStore
from headway.data.tokenizers import Tokenizer
from headway.decoding.beam import BeamSettings, Hypothesis, Penalty, beam_search
from headway.decoding.limits import SequenceLimits
from headway.errors import ConfigError, DataError
from headway.metrics.captions import CaptionReport, caption_report
from headway.metrics.language import LanguageReport
from headway.models.stepper import Source, Stepper
from headway.tasks.image_batches import TrainingImages, check_colours, normalised
from headway.tasks.training_task import IGNORED, Batch, Term, Validated, cross_entropy, next_token_loss

EVALUATED = 256  # images in one forward pass of an evaluation
SHOWN = 3  # samples of a validation


@dataclass(frozen=True, slots=True, kw_only=True)
class Captioning:
    """Square images of one size, each with sentences, and how a finished model describes them unless told otherwise."""

    size: int = 48  # pixels a side: the shorter side is resized to it, the centre cut out
    augment: Augmentation | None = None  # nothing that would make a caption untrue
    mean: tuple[float, ...] = (0.5, 0.5, 0.5)  # of red, green and blue from 0 to 1, subtracted
    std: tuple[float, ...] = (0.5, 0.5, 0.5)  # and divided by
    max_length: int = 50  # tokens of a caption, the stop token included; longer training captions are cut
    beam: int = 3
    length_penalty: float = 0.6
    penalty: Penalty = "gnmt"

    def __post_init__(self) -> None:
        check_colours(self.size, self.mean, self.std)
        positive("task.max_length", self.max_length)
        positive("task.beam", self.beam)
        if self.augment is not None and self.augment.mix:
            raise ConfigError(f"task.augment.mix={self.augment.mix}: two images mixed have no caption; allowed: 0")


@dataclass(frozen=True, slots=True)
class _Pairs:
    """Each caption of a split as tokens, and the row of the image it is about."""

    tokens: TokenStore
    images: Indices


class CaptioningTask:
    """Batches of images with a caption each, and what a model says of images."""

    fixed_shapes = False

    def __init__(
        self,
        config: Captioning,
        tokenizer: Tokenizer,
        splits: Mapping[str, Captioned],
        *,
        batch_tokens: int,
        seed: int,
        compiled: bool = False,
    ) -> None:
        self.config, self.tokenizer, self.splits = config, tokenizer, dict(splits)
        self._known: dict[str, _Pairs] = {}
        if "train" in splits:
            self.order = Shuffled(len(self._pairs("train").images), batch_tokens, seed)
            self.images = TrainingImages(
                splits["train"].pixels, config.augment, config.mean, config.std, seed=seed, compiled=compiled
            )

    def _pairs(self, split: str) -> _Pairs:
        """A split's captions as tokens, made when they are first asked for."""
        if split not in self.splits:
            raise DataError(f"no split {split!r}, there are {', '.join(self.splits)}")
        if split not in self._known:
            captions = self.splits[split].captions
            lines = self.tokenizer.encode_batch(list(chain.from_iterable(captions)))
            kept = [line[: self.config.max_length - 1] for line in lines]
            starts = np.cumsum([0, *map(len, kept)], dtype=np.int64)
            ids = np.fromiter(chain.from_iterable(kept), np.uint32, int(starts[-1]))
            rows = np.repeat(np.arange(len(captions)), [len(each) for each in captions])
            self._known[split] = _Pairs(TokenStore(ids, starts), rows.astype(np.int64))
        return self._known[split]

    def batch(self, indices: Indices) -> Batch:
        """These training captions, padded, and their images, picked."""
        tokens, lengths, targets = self._tokens("train", indices)
        images = self.images.picked(self._pairs("train").images[indices])
        return Batch((images, tokens, lengths), targets, int(lengths.sum()))

    def _tokens(self, split: str, rows: Indices) -> tuple[Tensor, Tensor, Tensor]:
        """Inputs (B, T) that begin with the start token, their lengths (B,), targets (B, T) that end with the stop."""
        tokenizer = self.tokenizer
        targets, lengths = self._pairs(split).tokens.padded(rows, stop=tokenizer.stop, pad=IGNORED)
        inputs = np.full_like(targets, tokenizer.pad)
        inputs[:, 0] = tokenizer.start
        inputs[:, 1:] = np.where(targets[:, :-1] == IGNORED, tokenizer.pad, targets[:, :-1])
        return torch.from_numpy(inputs), torch.from_numpy(lengths), torch.from_numpy(targets)

    def loss(self, model: nn.Module, batch: Batch, *, smoothing: float = 0.0, step: int = 0) -> dict[str, Term]:
        """Next-token cross-entropy on the captions."""
        given, *words = batch.inputs
        assert given is not None
        made = self.images.prepared(given, step)
        images = made if isinstance(made, Tensor) else made.images
        whole = replace(batch, inputs=(images, *words))
        return {"next_token": Term(next_token_loss(model, whole, smoothing), batch.count)}

    def validate(self, model: nn.Module, device: torch.device) -> Validated:
        """Nats per token over the validation captions, and the share of images whose own words greedy search finds."""
        report = self.report(self.said(model, device, "val", beam=1), "val")
        return Validated(self.forced(model, device, "val").loss, {"val_exact_match": report.exact_match})

    @torch.no_grad()
    def forced(self, model: nn.Module, device: torch.device, split: str) -> LanguageReport:
        """What the model thinks of every token of a split's captions after the ones before it."""
        pairs, nats, count = self._pairs(split), 0.0, 0
        for at in range(0, len(pairs.images), EVALUATED):
            rows = np.arange(at, min(at + EVALUATED, len(pairs.images)))
            tokens, lengths, targets = (part.to(device) for part in self._tokens(split, rows))
            images = self.seen(model, device, self.splits[split].pixels[pairs.images[rows]])
            nats += float(cross_entropy(model(images, tokens, lengths), targets))
            count += int(lengths.sum())
        return LanguageReport(nats, count)

    def seen(self, model: nn.Module, device: torch.device, pixels: Pixels) -> Tensor:
        """Images (N, 3, H, W) as the model reads them."""
        dtype = next((p.dtype for p in model.parameters() if p.is_floating_point()), torch.float32)
        return normalised(pixels, self.config.mean, self.config.std, device, dtype)

    def said(self, model: nn.Module, device: torch.device, split: str, *, beam: int | None = None) -> list[str]:
        """A caption for each image of a split."""
        if split not in self.splits:
            raise DataError(f"no split {split!r}, there are {', '.join(self.splits)}")
        return self.describe(model, device, self.splits[split].pixels, beam=beam)

    def report(self, said: Sequence[str], split: str) -> CaptionReport:
        """What captions of a split are worth."""
        return caption_report(said, self.splits[split].captions)

    def describe(self, model: nn.Module, device: torch.device, pixels: Pixels, *, beam: int | None = None) -> list[str]:
        """A caption for each image (N, 3, H, W)."""
        found = self.search(model, device, pixels, beam=beam)
        return [self.tokenizer.decode(lines[0].tokens) for lines in found]

    def search(
        self, model: nn.Module, device: torch.device, pixels: Pixels, *, beam: int | None = None, n_best: int = 1
    ) -> list[list[Hypothesis]]:
        """The best lines for each image (N, 3, H, W), best first."""
        stepper: Stepper[Any] = model  # type: ignore[assignment]
        config, found = self.config, []
        settings = BeamSettings(
            width=config.beam if beam is None else beam,
            alpha=config.length_penalty,
            penalty=config.penalty,
            n_best=n_best,
        )
        limits = SequenceLimits(start=self.tokenizer.start, stop=self.tokenizer.stop, max_tokens=config.max_length)
        for at in range(0, len(pixels), EVALUATED):
            source = Source.of_images(self.seen(model, device, pixels[at : at + EVALUATED]))
            found += beam_search(stepper, source, settings, limits)
        return found

    def samples(self, model: nn.Module, device: torch.device) -> list[str]:
        """Some validation images' first reference, and what the model says."""
        store = self.splits["val"]
        rows = np.unique(np.linspace(0, len(store) - 1, SHOWN).astype(np.int64))
        said = self.describe(model, device, np.asarray(store.pixels[rows]), beam=1)
        return [f"{store.captions[row][0]} → {text}" for row, text in zip(rows, said, strict=True)]


def prepare_captioning(
    config: Captioning,
    data: DataConfig,
    tokenizer: Tokenizer | None,
    *,
    batch_tokens: int,
    seed: int,
    compiled: bool = False,
    to_train: bool = True,
    expected: Mapping[str, str] | None = None,
    progress: Progress = lambda what, done, total: None,
) -> tuple[CaptioningTask, Tokenizer, Captions]:
    """Images with captions as a task, its tokenizer (the one given, else one trained on them) and the captions."""
    reading = ImageReading(
        size=config.size,
        val=data.val,
        skip_bad=data.skip_bad,
        to_train=to_train,
        cache=Path(data.cache).expanduser(),
    )
    captions = load_captions(data.spec, reading, progress)
    expect_contents(captions.contents, expected)
    if tokenizer is None:
        tokenizer = Tokenizer.train(data.tokenizer, chain.from_iterable(captions.splits["train"].captions))
    task = CaptioningTask(config, tokenizer, captions.splits, batch_tokens=batch_tokens, seed=seed, compiled=compiled)
    return task, tokenizer, captions
