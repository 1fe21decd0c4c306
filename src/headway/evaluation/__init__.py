"""The metrics: what a model's outputs are worth, on plain strings, ids and arrays."""

from headway.evaluation.language import LanguageReport, ngram_baseline, unigram_entropy
from headway.evaluation.plots import plot_by_length, plot_curves, plot_positions
from headway.evaluation.positions import PositionRange, PositionReport, first_divergence, position_report
from headway.evaluation.translation import (
    Bucket,
    TokenizedBleu,
    TranslationReport,
    paired_bootstrap,
    translation_report,
)

__all__ = [
    "Bucket",
    "LanguageReport",
    "PositionRange",
    "PositionReport",
    "TokenizedBleu",
    "TranslationReport",
    "first_divergence",
    "ngram_baseline",
    "paired_bootstrap",
    "plot_by_length",
    "plot_curves",
    "plot_positions",
    "position_report",
    "translation_report",
    "unigram_entropy",
]
