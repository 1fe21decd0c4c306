"""Contrastive training: batches of pairs, their loss, and how well held-out pairs are found."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from headway.data.batching import Indices, padded
from headway.data.token_store import TokenStore
from headway.data.tokenizers import Tokenizer
from headway.metrics.retrieval import RetrievalReport, alignment, retrieval_ranks, uniformity
from headway.tasks.sentence_embedding.config import Embedding
from headway.tasks.sentence_embedding.contrastive import DistinctBatches, contrastive_loss
from headway.tasks.sentence_embedding.embed import embed_rows, pooled
from headway.tasks.sharing import shared_by
from headway.tasks.training_task import Batch, Term, Validated

SHOWN = 3  # samples of a validation
UNIFORM = 4096  # texts, evenly spaced, of which all pairs are compared for the uniformity
Tokens = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class EncodedPairs:
    """A split as token ids: a store for each side, the rows that are used, and the numbers (N, K) of their texts."""

    sides: tuple[TokenStore, ...]
    kept: NDArray[np.int64]
    numbers: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.kept)

    def ids(self, side: int, n: int) -> Tokens:
        """The tokens of one text."""
        return self.sides[side][int(self.kept[n])].astype(np.int64)


@dataclass(frozen=True, slots=True)
class PairReport:
    """Held-out pairs: the loss in nats a pair, the ranks of the right texts, and how the vectors are distributed."""

    loss: float
    ranks: RetrievalReport
    alignment: float
    uniformity: float
    pairs: int
    found: NDArray[np.int64]  # (Q,): of each distinct first text, the row whose second text is nearest
    asked: NDArray[np.int64]  # (Q,): the row of that first text

    def to_json(self) -> dict[str, Any]:
        """The keys of `evaluate --json`."""
        return {
            "loss": self.loss,
            "recall_at_1": self.ranks.recall(1),
            "recall_at_5": self.ranks.recall(5),
            "mrr": self.ranks.mrr,
            "alignment": self.alignment,
            "uniformity": self.uniformity,
            "pairs": self.pairs,
            "candidates": self.ranks.candidates,
        }


class EmbeddingTraining:
    """Batches of pairs of texts `<s>` … `</s>`, no text in two pairs of a batch."""

    fixed_shapes = False

    def __init__(
        self, config: Embedding, tokenizer: Tokenizer, splits: Mapping[str, EncodedPairs], *, rows: int, seed: int
    ) -> None:
        self.config, self.tokenizer, self.splits, self.rows = config, tokenizer, dict(splits), rows
        self.before, self.after = (np.asarray(marks, np.int64) for marks in tokenizer.around)
        self.views = 2 if config.positives == "dropout" else 1  # how often each text is read
        if "train" in splits:
            self.order = DistinctBatches(splits["train"].numbers, rows, seed)
            self._batches("val")  # raises before the first step, not at the first validation

    def batch(self, indices: Indices) -> Batch:
        """These pairs: all first texts, then all second ones, then negatives, padded together (K·B, T)."""
        split = self.splits["train"]
        texts = [self.marked(split.ids(side, n)) for side in range(len(split.sides)) for n in indices]
        tokens, lengths = padded(texts * self.views, 0)  # type: ignore[arg-type]  # of any integers
        return Batch((torch.from_numpy(tokens), torch.from_numpy(lengths)), torch.arange(len(indices)), len(indices))

    def marked(self, ids: Tokens) -> Tokens:
        """The tokens of a text between special tokens."""
        return np.concatenate([self.before, ids, self.after])

    def loss(self, model: nn.Module, batch: Batch, *, smoothing: float = 0.0, step: int = 0) -> dict[str, Term]:
        """The right second text among all of the batch; each micro-batch has negatives of its own only."""
        tokens, lengths = batch.inputs
        assert lengths is not None
        vectors = pooled(model(tokens, lengths).float(), lengths, self.config)
        sides = vectors.chunk(len(vectors) // batch.count)
        return {"contrastive": Term(self._nats(sides, smoothing), batch.count)}

    def _nats(self, sides: tuple[Tensor, ...], smoothing: float = 0.0) -> Tensor:
        config = self.config
        return contrastive_loss(sides, scale=config.scale, symmetric=config.symmetric, smoothing=smoothing)

    def validate(self, model: nn.Module, device: torch.device) -> Validated:
        """Nats a pair of the validation split, in batches like those of training, and how often the pair is found."""
        found = self.evaluate(model, device, "val")
        return Validated(found.loss, {"val_recall_at_1": found.ranks.recall(1)})

    @torch.no_grad()
    def evaluate(self, model: nn.Module, device: torch.device, split: str) -> PairReport:
        """The pairs of a split: each first text is to find its second one among all different ones of the split."""
        pairs = self.splits[split]
        sides = self._vectors(model, device, pairs)
        batches = self._batches(split)
        nats = sum(float(self._nats(tuple(side[rows] for side in sides))) for rows in batches)
        first, second = (torch.nn.functional.normalize(side, dim=-1) for side in sides[:2])
        numbers = pairs.numbers[:, [0, min(1, pairs.numbers.shape[1] - 1)]]
        (_, asked), (_, offered) = (np.unique(numbers[:, side], return_index=True) for side in (0, 1))
        ranks, found = retrieval_ranks(first[asked], second[offered], _right(numbers, asked, offered))
        texts = torch.cat([first[asked], second[offered]])
        some = torch.linspace(0, len(texts) - 1, min(len(texts), UNIFORM)).round().long()
        return PairReport(
            loss=nats / sum(map(len, batches)),
            ranks=ranks,
            alignment=alignment(first, second),
            uniformity=uniformity(texts[some]),
            pairs=len(pairs),
            found=offered[found],
            asked=asked,
        )

    def _batches(self, split: str) -> list[Indices]:
        """The batches in which the loss of a split is measured, the same each time."""
        return DistinctBatches(self.splits[split].numbers, self.rows, 0, split).epoch(0)

    def _vectors(self, model: nn.Module, device: torch.device, pairs: EncodedPairs) -> tuple[Tensor, ...]:
        """The vectors (N, D) of each side, on the CPU; of texts that are their own pair, two under dropout."""

        def vectors(side: int) -> Tensor:
            rows = [self.marked(pairs.ids(side, n)).tolist() for n in range(len(pairs))]
            return torch.from_numpy(embed_rows(model, rows, self.config, device))

        if self.views == 1:
            return tuple(vectors(side) for side in range(len(pairs.sides)))
        with _dropout(model, device), shared_by(None):  # of one stream, whose draws follow from all before them
            return vectors(0), vectors(0)

    def samples(self, model: nn.Module, device: torch.device) -> list[str]:
        """The first texts of a few validation pairs, and the second text that is nearest to each."""
        found = self.evaluate(model, device, "val")
        return [f"{first} → {nearest}" for first, _, nearest in self.shown("val", found)]

    def shown(self, split: str, found: PairReport) -> list[tuple[str, str, str]]:
        """First text, its second text and the nearest one, of a few pairs that are evenly spaced."""
        pairs, last = self.splits[split], len(self.splits[split].sides) - 1
        other = min(1, last)
        order = np.argsort(found.asked)
        chosen = order[np.linspace(0, len(order) - 1, min(SHOWN, len(order))).round().astype(int)]

        def text(side: int, n: int) -> str:
            return " ".join(self.tokenizer.decode(pairs.ids(side, n).tolist(), specials=True).split())

        return [(text(0, found.asked[n]), text(other, found.asked[n]), text(other, found.found[n])) for n in chosen]


def _right(numbers_N2: NDArray[np.int64], asked: NDArray[np.int64], offered: NDArray[np.int64]) -> NDArray[np.int64]:
    """Every pair as (row of its first text among those asked, row of its second text among those offered), (P, 2)."""
    sides = []
    for side, rows in enumerate((asked, offered)):
        known = numbers_N2[rows, side]  # sorted, as np.unique leaves them
        sides.append(np.searchsorted(known, numbers_N2[:, side]))
    return np.unique(np.stack(sides, 1), axis=0)


@contextlib.contextmanager
def _dropout(model: nn.Module, device: torch.device) -> Iterator[None]:
    """Dropout as in training, drawn from a seed of its own, and all generators as they were afterwards."""
    before = model.training
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(0)
        model.train()
        try:
            yield
        finally:
            model.train(before)
