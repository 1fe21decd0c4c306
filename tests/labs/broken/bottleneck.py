from __future__ import annotations

from headway.nn import AlignmentConfig
from tests.labs.broken import Mutation

BROKEN = (
    Mutation("attention", lambda kind: None, fails="attention: digits right"),
    Mutation("attention", lambda kind: AlignmentConfig(width=32), fails="one vector: digits right at length 6"),
)
