"""Retrieval by vectors: the rank of the right answer, and how vectors are distributed on the sphere."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

BLOCK = 1 << 24  # scores at a time


@dataclass(frozen=True, slots=True)
class RetrievalReport:
    """The rank, from 1, of the first right candidate for each query (Q,), among how many candidates."""

    ranks: NDArray[np.int64]
    candidates: int

    def recall(self, k: int) -> float:
        """The share of queries with a right candidate among the first k."""
        return float((self.ranks <= k).mean())

    @property
    def mrr(self) -> float:
        """The mean of the reciprocal ranks."""
        return float((1 / self.ranks).mean())


def retrieval_ranks(
    queries_QD: Tensor, candidates_MD: Tensor, right_P2: NDArray[np.int64]
) -> tuple[RetrievalReport, NDArray[np.int64]]:
    """Ranks of the best right candidate by the product of vectors, and the candidate (Q,) nearest to each query.

    `right_P2` lists (query, candidate); every query has one at least. A wrong candidate with the same score as the
    right one stands before it, so that vectors which are all alike find nothing.
    """
    queries, size = len(queries_QD), max(BLOCK // max(len(candidates_MD), 1), 1)
    ranks, nearest = np.zeros(queries, np.int64), np.zeros(queries, np.int64)
    for first in range(0, queries, size):
        scores_BM = queries_QD[first : first + size] @ candidates_MD.T
        inside = right_P2[(right_P2[:, 0] >= first) & (right_P2[:, 0] < first + size)]
        right_BM = torch.zeros_like(scores_BM, dtype=torch.bool)
        right_BM[inside[:, 0] - first, inside[:, 1]] = True
        best_B = scores_BM.masked_fill(~right_BM, -torch.inf).amax(1, keepdim=True)
        ranks[first : first + size] = 1 + ((scores_BM >= best_B) & ~right_BM).sum(1).numpy()
        nearest[first : first + size] = scores_BM.argmax(1).numpy()
    return RetrievalReport(ranks, len(candidates_MD)), nearest


def alignment(first_ND: Tensor, second_ND: Tensor) -> float:
    """The mean squared distance of the vectors of a pair, all of length 1 (Wang and Isola 2020, section 4.1.1)."""
    return float((first_ND - second_ND).square().sum(1).mean())


def uniformity(vectors_ND: Tensor, t: float = 2.0) -> float:
    """The logarithm of the mean Gaussian potential of all pairs of different vectors (section 4.1.2): the lower, the
    more evenly they lie on the sphere.
    """
    count, total = len(vectors_ND), 0.0
    size = max(BLOCK // max(count, 1), 1)
    for first in range(0, count, size):
        block = vectors_ND[first : first + size].double()
        squared = (2 - 2 * block @ vectors_ND.double().T).clamp(min=0)
        total += float((-t * squared).exp().sum())
    return float(np.log((total - count) / (count * (count - 1))))  # without each vector beside itself
