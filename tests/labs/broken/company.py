from __future__ import annotations

import torch

from headway.labs import company
from tests.labs.broken import Mutation

sentences = company.sentences


def any_order(count, generator):
    """Every word anywhere: no word has a company of its own."""
    return torch.randint(1, len(company.WORDS), (count, len(company.PATTERN) + 1), generator=generator)


BROKEN = (
    Mutation("sentences", any_order, fails="same company"),
    Mutation("cosines", lambda model: torch.ones(12, 12), fails="other company", flags={"steps": "2"}),
    Mutation("sentences", sentences, fails="same company", flags={"steps": "2"}),  # untrained
)
