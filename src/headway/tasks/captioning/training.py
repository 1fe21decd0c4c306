"""Training on images with captions: padded batches, teacher forcing, the loss of each token."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np
import torch
from torch import Tensor, nn

from headway.data.batching import Indices, Shuffled
from headway.data.captions import CaptionedImages
from headway.data.token_store import TokenStore
from headway.data.tokenizers import Tokenizer
from headway.decoding.non_finite import numbered
from headway.metrics.captions import CaptionReport, caption_report
from headway.metrics.language import LanguageReport
from headway.tasks.base import named_split
from headway.tasks.captioning.config import Captioning
from headway.tasks.captioning.search import EVALUATED, CaptionSearch
from headway.tasks.image_batches import TrainingImages
from headway.tasks.sharing import in_parts, texts_in_parts
from headway.tasks.training_task import IGNORED, Batch, Term, Validated, cross_entropy, next_token_loss

SHOWN = 3  # samples of a validation


@dataclass(frozen=True, slots=True)
class _Pairs:
    """Each caption of a split as tokens, and the index of its image."""

    tokens: TokenStore
    images: Indices


class CaptioningTraining(CaptionSearch):
    """Batches of images with a caption each, and the captions and loss of a model on a split."""

    fixed_shapes = False

    def __init__(
        self,
        config: Captioning,
        tokenizer: Tokenizer,
        splits: Mapping[str, CaptionedImages],
        *,
        batch_tokens: int,
        seed: int,
        compiled: bool = False,
    ) -> None:
        super().__init__(config, tokenizer)
        self.splits = dict(splits)
        self._known: dict[str, _Pairs] = {}
        if "train" in splits:
            self.order = Shuffled(len(self._pairs("train").images), batch_tokens, seed)
            self.images = TrainingImages(
                splits["train"].pixels, config.augment, config.mean, config.std, seed=seed, compiled=compiled
            )

    def _pairs(self, split: str) -> _Pairs:
        """A split's captions as tokens, encoded on first use."""
        if split not in self._known:
            captions = named_split(self.splits, split).captions
            lines = self.tokenizer.encode_batch(list(chain.from_iterable(captions)))
            kept = [line[: self.config.max_length - 1] for line in lines]
            starts = np.cumsum([0, *map(len, kept)], dtype=np.int64)
            ids = np.fromiter(chain.from_iterable(kept), np.uint32, int(starts[-1]))
            rows = np.repeat(np.arange(len(captions)), [len(each) for each in captions])
            self._known[split] = _Pairs(TokenStore(ids, starts), rows.astype(np.int64))
        return self._known[split]

    def batch(self, indices: Indices) -> Batch:
        """These training captions, padded, and their images, by index or as pixels."""
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
        """Nats per token over the validation captions, and the share of images whose greedy caption is a reference."""
        report = self.report(self.captions(model, device, "val", beam=1), "val")
        return Validated(self.forced(model, device, "val").loss, {"val_exact_match": report.exact_match})

    @torch.no_grad()
    def forced(self, model: nn.Module, device: torch.device, split: str) -> LanguageReport:
        """The loss of every token of a split's captions after the gold tokens before it."""
        pairs = self._pairs(split)

        def scored(at: int) -> tuple[float, float]:
            rows = np.arange(at, min(at + EVALUATED, len(pairs.images)))
            tokens, lengths, targets = (part.to(device) for part in self._tokens(split, rows))
            images = self.normalised(model, device, self.splits[split].pixels[pairs.images[rows]])
            return float(cross_entropy(model(images, tokens, lengths), targets)), float(lengths.sum())

        nats, count = map(sum, zip(*in_parts(range(0, len(pairs.images), EVALUATED), scored), strict=True))
        return LanguageReport(nats, int(count))

    def captions(self, model: nn.Module, device: torch.device, split: str, *, beam: int | None = None) -> list[str]:
        """A caption for each image of a split."""
        pixels = named_split(self.splits, split).pixels

        def described(at: int) -> list[str]:
            with numbered(range(at, len(pixels)), "image"):
                return self.describe(model, device, pixels[at : at + EVALUATED], beam=beam)

        return texts_in_parts(range(0, len(pixels), EVALUATED), described)

    def report(self, outputs: Sequence[str], split: str) -> CaptionReport:
        """The figures of a model's captions of a split."""
        return caption_report(outputs, self.splits[split].captions)

    def samples(self, model: nn.Module, device: torch.device) -> list[str]:
        """Some validation images: the first reference and the greedy caption."""
        store = self.splits["val"]
        rows = np.unique(np.linspace(0, len(store) - 1, SHOWN).astype(np.int64))
        outputs = self.describe(model, device, np.asarray(store.pixels[rows]), beam=1)
        return [f"{store.captions[row][0]} → {text}" for row, text in zip(rows, outputs, strict=True)]
