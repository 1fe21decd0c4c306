from __future__ import annotations

from headway.labs import masked
from tests.labs.broken import Mutation

shares = masked.shares
SHORT = {"steps": "2"}


def all_hidden(data, rows):
    """Every chosen word is shown as a mask, none as another word."""
    object.__setattr__(data.config, "hidden", 1.0)
    return shares(data, rows)


BROKEN = (
    Mutation("shares", all_hidden, fails="of the chosen: shown as another", flags=SHORT),
    Mutation("train", lambda model, data, steps: [0.0, 0.0], fails="nats of a hidden word"),  # untrained
)
