from __future__ import annotations

from dataclasses import replace

from headway.labs import anything
from tests.labs.broken import Mutation

stack = anything.stack

BROKEN = (
    Mutation("stack", lambda: replace(stack(), position=None), fails="sound: classes that change"),  # order is lost
    Mutation("stack", lambda: replace(stack(), position=None), fails="words: share right"),
)
