"""The similarity of pairs of texts beside scores that people gave: the STS tasks (Cer et al. 2017)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from headway.data.scored_pairs import ScoredPair
from headway.metrics.regression import pearson, spearman
from headway.tasks.report import NONE, Facts, Report, Sample, Samples, spread


def cosines(first_ND: NDArray[np.float32], second_ND: NDArray[np.float32]) -> NDArray[np.float64]:
    """The cosine similarity of each pair of vectors (N, D) -> (N,)."""
    first, second = first_ND.astype(np.float64), second_ND.astype(np.float64)
    lengths = np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1)
    return np.asarray((first * second).sum(1) / np.maximum(lengths, np.finfo(np.float64).tiny), np.float64)


def similarity_report(split: str, pairs: Sequence[ScoredPair], found: NDArray[np.float64]) -> Report:
    """Pearson's and Spearman's correlation of cosines (N,) with the scores of N pairs, and a few pairs."""
    scores = np.asarray([pair.score for pair in pairs], np.float64)
    values = {"pearson": pearson(scores, found), "spearman": spearman(scores, found), "pairs": len(pairs)}
    told = {name: NONE if values[name] is None else f"{values[name]:.4f}" for name in ("pearson", "spearman")}
    facts = {
        "pearson": f"{told['pearson']}  correlation of cosine similarity and score",
        "spearman": f"{told['spearman']}  the same of their ranks",
        "pairs": f"{len(pairs):,}",
    }
    blocks = [
        [
            Sample("text", pairs[number].first),
            Sample("other", pairs[number].second),
            Sample("score", f"{pairs[number].score:g}, cosine {found[number]:.3f}"),
        ]
        for number in spread(len(pairs))
    ]
    return Report(split=split, values=values, sections=[Facts(facts), Samples("samples", blocks)])
