from __future__ import annotations

from headway.ops import Causal, Window
from tests.labs.broken import Mutation

BROKEN = (
    Mutation("mask", lambda causal: Window(64), fails="causal mask: of 100 edits"),  # mask removed
    Mutation("mask", lambda causal: Causal(), fails="no mask: loss"),
)
