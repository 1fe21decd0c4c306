from __future__ import annotations

import torch

from headway.labs import ladder
from tests.labs.broken import Mutation

counts_table = ladder.counts_table
SHORT = {"steps": "2"}


def without_context(rows, order, vocab):
    """A table that has forgotten what stands before: the unigram's row everywhere."""
    return counts_table(rows, 0, vocab).expand((vocab,) * (order + 1))


BROKEN = (
    Mutation("counts_table", without_context, fails="bits that one letter", flags=SHORT),
    Mutation(
        "counts_table",  # counts, not probabilities
        lambda rows, order, vocab: 2 * counts_table(rows, order, vocab),
        fails="probabilities of a table",
        flags=SHORT,
    ),
    Mutation("train", lambda *rest: torch.ones(1), fails="bits that a GPT saves"),  # untrained
)
