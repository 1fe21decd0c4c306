from __future__ import annotations

from headway.labs import search
from tests.labs.broken import Mutation

find, log_probabilities = search.find, search.log_probabilities


def always_greedy(model, prompts, width, alpha, tokens):
    return find(model, prompts, 1, alpha, tokens)


def without_penalty(model, prompts, width, alpha, tokens):
    return find(model, prompts, width, 0.0, tokens)


def shifted(model, prompts):
    """Scores of the targets shifted by one: each word is given its own position's logits."""
    return log_probabilities(lambda tokens: model(tokens).roll(1, 1), prompts)


BROKEN = (
    Mutation("find", always_greedy, fails="tree: probability of what a beam of 2"),
    Mutation("find", always_greedy, fails="beam of 256 = all sequences"),
    Mutation("find", without_penalty, fails="words that α = 2"),
    Mutation("greedy", lambda model, prompts: [[1]] * len(prompts), fails="beam of 1 = greedy"),
    Mutation("log_probabilities", shifted, fails="beam of 256 = all sequences"),
)
