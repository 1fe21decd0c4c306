"""Built-in `coreference-choice`: what *it* is in the sentences of `coreference`, among four nouns (Winograd 1972).

Two choices are the nouns of the sentence, of which the meaning of one word decides; the other two could take their
places but do not occur in it. So neither the sentence's nouns nor the deciding word is enough. As in `coreference`, no
combination of nouns and deciding word is in two splits.
"""

from __future__ import annotations

import random
from functools import cache
from itertools import pairwise

from headway.data.choices import ChoiceQuestion
from headway.data.synthetic import coreference

SPLITS = ("train", "val", "test")
QUESTION = "what is it ?"
NOUNS = frozenset(noun for each in coreference.SITUATIONS for noun in (*each.doers, *each.things))


@cache
def documents(split: str) -> tuple[ChoiceQuestion, ...]:
    """The questions of a split, the same each time."""
    draw = random.Random(f"coreference-choice {split}")
    return tuple(
        _question(draw, f"{split}-{number}", words, tags)
        for number, (words, tags) in enumerate(coreference.sentences(split))
    )


def _question(draw: random.Random, name: str, words: tuple[str, ...], tags: tuple[str, ...]) -> ChoiceQuestion:
    answer = words[tags.index(f"I-{coreference.ANTECEDENT}")]
    nouns = {word for before, word in pairwise(words) if before == "the" and word in NOUNS}
    where = next(each for each in coreference.SITUATIONS if nouns <= {*each.doers, *each.things})
    others = [draw.choice([noun for noun in each if noun not in nouns]) for each in (where.doers, where.things)]
    choices = draw.sample(sorted({*nouns, *others}), 4)
    return ChoiceQuestion(
        name, " ".join(words), QUESTION, tuple(f"the {noun}" for noun in choices), choices.index(answer)
    )
