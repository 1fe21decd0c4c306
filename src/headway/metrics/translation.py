"""Translation metrics: sacreBLEU with its signature, tokenised lower-case BLEU, chrF, and bootstrap intervals."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from sacrebleu.metrics.bleu import BLEU, MAX_NGRAM_ORDER
from sacrebleu.metrics.chrf import CHRF

from headway.errors import DataError
from headway.metrics.bleu import Floats, bleu_from_counts, bleu_interval, check_pairs, resampled_bleu, sentence_counts

BUCKETS = (5, 10, 15, 20, 30, 40)  # the longest sentence of each bucket, in words; one more holds the rest


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenizedBleu:
    """Unsmoothed BLEU of lower-cased text split at white space, as multi-bleu.perl -lc prints it."""

    score: float
    precisions: tuple[float, ...]
    brevity_penalty: float
    hypothesis_length: int
    reference_length: int

    @property
    def lengths(self) -> str:
        """Words of hypotheses and references, as `123/120`."""
        return f"{self.hypothesis_length}/{self.reference_length}"

    def __str__(self) -> str:
        precisions = "/".join(f"{each:.1f}" for each in self.precisions)
        return f"{self.score:.2f} ({precisions}, BP {self.brevity_penalty:.3f}, {self.lengths})"


@dataclass(frozen=True, slots=True, kw_only=True)
class LengthBucket:
    """Sentences of `low` to `high` words (None: no limit); BLEU is None if all are shorter than its n-grams."""

    low: int
    high: int | None
    sentences: int
    bleu: float | None
    exact_match: float

    @property
    def label(self) -> str:
        """The range of lengths for a table."""
        return f"{self.low}+" if self.high is None else f"{self.low}-{self.high}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TranslationReport:
    """The metrics of a set of translations; `bleu_low` to `bleu_high` is the 95 % bootstrap interval of `bleu`."""

    bleu: float
    bleu_signature: str
    bleu_low: float
    bleu_high: float
    tokenized_lower: TokenizedBleu
    chrf: float
    exact_match: float
    length_ratio: float
    sentences: int
    by_length: tuple[LengthBucket, ...]
    looks_tokenized: bool  # then `bleu` is not comparable with sacreBLEU scores of plain text

    @property
    def bleu_tokenized_lower(self) -> float:
        """The score of `tokenized_lower`."""
        return self.tokenized_lower.score

    def to_json(self) -> dict[str, float | int | str]:
        """The flat object that `headway evaluate --json` prints."""
        return {
            "bleu": self.bleu,
            "bleu_signature": self.bleu_signature,
            "bleu_low": self.bleu_low,
            "bleu_high": self.bleu_high,
            "bleu_tokenized_lower": self.bleu_tokenized_lower,
            "chrf": self.chrf,
            "exact_match": self.exact_match,
            "length_ratio": self.length_ratio,
            "sentences": self.sentences,
        }


def translation_report(
    hypotheses: list[str],
    references: list[str],
    sources: list[str] | None = None,
    *,
    seed: int = 0,
    resamples: int = 1000,
) -> TranslationReport:
    """Score one hypothesis for each reference; buckets are by source words, or by reference words without sources.

    Raises DataError on unequal counts or no sentences.
    """
    check_pairs(hypotheses, references)
    if sources is not None and len(sources) != len(references):
        raise DataError(f"{len(sources)} sources for {len(references)} references; expected one for each")
    # force silences a warning on standard error, which `looks_tokenized` replaces.
    metric = BLEU(force=True)
    score = metric.corpus_score(hypotheses, [references])
    counts = sentence_counts(hypotheses, references)
    low, high = bleu_interval(counts, seed, resamples)
    exact = np.array([_same(hyp, ref) for hyp, ref in zip(hypotheses, references, strict=True)])
    return TranslationReport(
        bleu=min(score.score, 100.0),  # rounding lifts identical text slightly above
        bleu_signature=str(metric.get_signature()),
        bleu_low=low,
        bleu_high=high,
        tokenized_lower=_tokenized_lower(hypotheses, references),
        chrf=float(CHRF().corpus_score(hypotheses, [references]).score),
        exact_match=float(exact.mean()),
        length_ratio=float(score.ratio),
        sentences=len(references),
        by_length=_by_length(references if sources is None else sources, counts, exact),
        looks_tokenized=_looks_tokenized(references),
    )


def paired_bootstrap(
    a: list[str], b: list[str], references: list[str], *, seed: int = 0, resamples: int = 1000
) -> tuple[float, float]:
    """BLEU of b minus BLEU of a, and the two-sided p-value of that difference for equally good systems.

    Both are scored on the same resampled sentences (Koehn 2004). Raises DataError on unequal counts or no sentences.
    """
    check_pairs(a, references, "hypotheses of a")
    check_pairs(b, references, "hypotheses of b")
    counts = [sentence_counts(a, references), sentence_counts(b, references)]
    first, second = resampled_bleu(counts, seed, resamples)
    delta = float(bleu_from_counts(counts[1].sum(0)) - bleu_from_counts(counts[0].sum(0)))
    gaps = second - first
    # Centred resamples are the null distribution; the observed difference counts as one of them, so p is never 0.
    # The tolerance keeps equal systems, whose differences are rounding errors, at p = 1.
    extreme = np.abs(gaps - gaps.mean()) >= abs(delta) - 1e-9
    return delta, float((extreme.sum() + 1) / (resamples + 1))


def _tokenized_lower(hypotheses: list[str], references: list[str]) -> TokenizedBleu:
    metric = BLEU(lowercase=True, tokenize="none", smooth_method="none", force=True)
    score = metric.corpus_score(hypotheses, [references])
    return TokenizedBleu(
        score=min(score.score, 100.0),
        precisions=tuple(score.precisions),
        brevity_penalty=score.bp,
        hypothesis_length=score.sys_len,
        reference_length=score.ref_len,
    )


def _same(hypothesis: str, reference: str) -> bool:
    """Equal word for word, ignoring white space."""
    return hypothesis.split() == reference.split()


def _looks_tokenized(references: list[str]) -> bool:
    """Whether most sentences that end in a full stop have it as a separate word."""
    stops = [line.rstrip().endswith(" .") for line in references if line.rstrip().endswith(".")]
    return 2 * sum(stops) > len(stops)


def _by_length(lines: list[str], counts: Floats, exact: np.ndarray) -> tuple[LengthBucket, ...]:
    """Non-empty buckets; an empty line is in the first."""
    lengths = np.array([len(line.split()) for line in lines])
    index = np.searchsorted(BUCKETS, lengths)  # a length equal to an edge belongs below it
    buckets = []
    for number in np.unique(index):
        here = index == number
        # Without a 4-gram on either side BLEU is undefined; a 0 would look like a failure.
        measurable = counts[here, :2].max() >= MAX_NGRAM_ORDER
        buckets.append(
            LengthBucket(
                low=1 if number == 0 else BUCKETS[number - 1] + 1,
                high=BUCKETS[number] if number < len(BUCKETS) else None,
                sentences=int(here.sum()),
                bleu=float(bleu_from_counts(counts[here].sum(0))) if measurable else None,
                exact_match=float(exact[here].mean()),
            )
        )
    return tuple(buckets)
