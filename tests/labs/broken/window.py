from __future__ import annotations

from headway.labs import window
from headway.ops import Causal, Global, Window
from tests.labs.broken import Mutation

classifier, reach = window.classifier, window.reach
SHORT = {"steps": "1"}

BROKEN = (
    Mutation("pattern", lambda length, radius: Window(radius), fails="pairs in the mask", flags=SHORT),  # no global
    Mutation(
        "pattern",  # no window: the band is the whole lower half
        lambda length, radius: Window(length, 0) & Causal() | Global.of([[0]], length),
        fails="window: exponent",
        flags=SHORT,
    ),
    Mutation(
        "classifier",
        lambda radius, words, global_tokens, seed: classifier(radius, words, 0, seed),
        fails="needle found with a global token",
        flags=SHORT,
    ),
    Mutation(
        "classifier",  # a window over everything is no window
        lambda radius, words, global_tokens, seed: classifier(words, words, 1, seed),
        fails="needle found without",
    ),
    Mutation(
        "reach",
        lambda radius, seed, *, global_first: reach(radius, seed, global_first=False),
        fails="words that layer 2 reaches with",
        flags=SHORT,
    ),
)
