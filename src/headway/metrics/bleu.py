"""Corpus BLEU (Papineni et al. 2002) from per-sentence n-gram counts, so that a bootstrap is one matrix product."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray
from sacrebleu.metrics.bleu import BLEU, MAX_NGRAM_ORDER

from headway.errors import ConfigError, DataError

Floats = NDArray[np.float64]
CHUNK = 4_000_000  # resampled counts in memory at once: tens of megabytes for any test set


def check_pairs(hypotheses: Sequence[str], references: Sequence[str], name: str = "hypotheses") -> None:
    """Raise DataError unless there is one reference for each hypothesis, and at least one pair."""
    if len(hypotheses) != len(references):
        raise DataError(f"{len(hypotheses)} {name} for {len(references)} references; expected one for each")
    if not references:
        raise DataError(f"0 {name} and 0 references; expected at least one pair")


def sentence_counts(hypotheses: Sequence[str], references: Sequence[str]) -> Floats:
    """(N, 10): hypothesis and reference length, matching n-grams of each order, all n-grams of each order."""
    # effective_order does not change counts; it only silences sacreBLEU's warning about single sentences.
    metric = BLEU(effective_order=True, force=True)
    scores = (metric.sentence_score(hyp, [ref]) for hyp, ref in zip(hypotheses, references, strict=True))
    return np.array([[s.sys_len, s.ref_len, *s.counts, *s.totals] for s in scores], dtype=np.float64)


def bleu_from_counts(sums: Floats) -> Floats:
    """(..., 10) summed counts -> (...) BLEU with sacreBLEU's default smoothing of missing n-grams."""
    hypothesis, reference = sums[..., 0], sums[..., 1]
    matches, totals = sums[..., 2 : 2 + MAX_NGRAM_ORDER], sums[..., 2 + MAX_NGRAM_ORDER :]
    missing = np.cumsum(matches == 0, axis=-1)  # each order without a match halves the credit again
    with np.errstate(divide="ignore", invalid="ignore"):
        precision = np.where(matches > 0, matches, 0.5**missing) / totals
        brevity = np.exp(np.minimum(0.0, 1 - reference / hypothesis))
        score = 100 * brevity * np.exp(np.log(precision).mean(axis=-1))
    # BLEU is undefined for an order without any n-gram; sacreBLEU returns zero, and so does this.
    defined = (totals > 0).all(axis=-1) & (matches > 0).any(axis=-1)
    return np.minimum(np.where(defined, score, 0.0), 100.0)


def resampled_bleu(counts: Sequence[Floats], seed: int, resamples: int) -> Floats:
    """Systems of (N, 10) counts -> (systems, resamples) BLEU, every system on the same resampled sentences."""
    if resamples < 1:
        raise ConfigError(f"resamples={resamples}, expected at least 1")
    parts = [
        np.stack([bleu_from_counts(weights @ system) for system in counts])
        for weights in _weights(len(counts[0]), seed, resamples)
    ]
    return np.concatenate(parts, axis=1)


def bleu_interval(counts: Floats, seed: int, resamples: int) -> tuple[float, float]:
    """The 95 % percentile interval of BLEU over resampled sentences."""
    low, high = np.quantile(resampled_bleu([counts], seed, resamples)[0], (0.025, 0.975))
    return float(low), float(high)


def _weights(sentences: int, seed: int, resamples: int) -> Iterator[Floats]:
    """How often each sentence is drawn in each resample, in chunks of (rows, N)."""
    generator = np.random.default_rng(seed)
    rows = max(1, CHUNK // sentences)
    for start in range(0, resamples, rows):
        size = min(rows, resamples - start)
        yield generator.multinomial(sentences, np.full(sentences, 1 / sentences), size=size).astype(np.float64)
