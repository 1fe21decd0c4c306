from __future__ import annotations

from headway.labs import robots
from tests.labs.broken import Mutation

target = robots.target

BROKEN = (
    Mutation("position", lambda: None, fails="order matters: error"),  # no positions: it cannot know the first
    Mutation(  # both tasks ordered
        "target", lambda task, places: target("order matters", places), fails="order does not matter: change"
    ),
    Mutation("in_no_order", lambda x: x, fails="words in no order"),  # the order is kept
    Mutation("in_no_order", lambda x: x, fails="pixels in no order"),
)
