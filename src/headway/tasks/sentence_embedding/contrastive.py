"""The contrastive loss of pairs of texts, and batches in which no text is a negative of its own.

The loss is InfoNCE (van den Oord et al. 2018, eq. 4) with the other pairs of the batch as negatives (Henderson et al.
2017, section 4.4): each first text has to find its second text among all of the batch, by cosine similarity times a
scale. sentence-transformers calls it MultipleNegativesRankingLoss.
"""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from headway.data.batching import Indices, Order
from headway.errors import DataError
from headway.tasks.training_task import cross_entropy


def contrastive_loss(
    sides_BD: tuple[Tensor, ...], *, scale: float, symmetric: bool = False, smoothing: float = 0.0
) -> Tensor:
    """The summed loss in nats of B pairs, or of B triplets: (B, D) for first, second and further texts, the negatives.

    With `symmetric` half of it is the loss of finding the first text for each second one.
    """
    first_BD, *others = (F.normalize(side.float(), dim=-1) for side in sides_BD)
    scores_BC = scale * first_BD @ torch.cat(others).T  # the second texts of all pairs, then the negatives of all
    right_B = torch.arange(len(first_BD), device=first_BD.device)
    loss = cross_entropy(scores_BC, right_B, smoothing)
    if not symmetric:
        return loss
    back_BB = scores_BC[:, : len(first_BD)].T
    return (loss + cross_entropy(back_BB, right_B, smoothing)) / 2


class DistinctBatches(Order):
    """Batches of pairs in which no text occurs in two of them; every pair once per epoch, in another order.

    A text that occurred twice would be a negative of its own: of a pair (a, b) and a pair (a, c) in one batch, c would
    count as wrong for a. Pairs are dealt out in a random order, each to the first open batch that has none of its
    texts. A batch of a single pair, which has no negative, is left out.
    """

    def __init__(self, texts_NK: NDArray[np.int64], rows: int, seed: int, split: str = "train") -> None:
        """`texts_NK` has the number of each text of a pair, equal for equal texts. Raises DataError if none differ."""
        super().__init__(seed)
        self.texts, self.rows = texts_NK, max(rows, 2)
        if not self.epoch(0):
            why = "a contrastive loss needs other pairs as negatives"
            raise DataError(f"split {split}: of {len(texts_NK):,} pairs no two have different texts; {why}")

    def epoch(self, number: int) -> list[Indices]:
        """Batches of numbers of pairs."""
        random = self.random(number)
        texts = self.texts.tolist()
        full: list[list[int]] = []
        opened: list[tuple[list[int], set[int]]] = []
        for pair in random.permutation(len(texts)).tolist():
            own = texts[pair]
            at = next((n for n, (_, held) in enumerate(opened) if held.isdisjoint(own)), None)
            if at is None:
                opened.append(([], set()))
                at = len(opened) - 1
            members, held = opened[at]
            members.append(pair)
            held.update(own)
            if len(members) == self.rows:
                full.append(members)
                opened.pop(at)
        batches = [*full, *(members for members, _ in opened if len(members) > 1)]
        return [np.asarray(batches[n]) for n in random.permutation(len(batches))]


def numbered_texts(sides: tuple[list[bytes], ...]) -> NDArray[np.int64]:
    """The texts of N pairs, a list for each side -> their numbers (N, K), equal for equal texts."""
    numbers: dict[bytes, int] = {}
    return np.asarray([[numbers.setdefault(text, len(numbers)) for text in row] for row in zip(*sides, strict=True)])
