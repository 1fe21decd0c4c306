"""Documents that keep to one subject each: what the labs on pretraining read. It is not a lab."""

from __future__ import annotations

import random
from collections.abc import Iterator

import numpy as np

from headway.data.token_store import TokenStore
from headway.data.tokenizers import MASK, SPECIALS, Tokenizer
from headway.data.vocabularies import Word

SUBJECTS = (  # who, does, what
    (("cat", "kitten"), ("drinks", "licks"), ("milk", "cream")),
    (("pilot", "captain"), ("flies", "lands"), ("plane", "jet")),
    (("cook", "baker"), ("bakes", "cuts"), ("bread", "cake")),
    (("farmer", "gardener"), ("plants", "waters"), ("tree", "field")),
    (("pianist", "singer"), ("plays", "hears"), ("song", "tune")),
    (("judge", "lawyer"), ("reads", "writes"), ("law", "verdict")),
)
SENTENCES = 40  # of a document
DOCUMENTS = {"train": 60, "test": 12}


def sentence(subject: int, chosen: random.Random) -> str:
    """“the cat drinks the milk .”, of words of this subject."""
    who, does, what = SUBJECTS[subject]
    return f"the {chosen.choice(who)} {chosen.choice(does)} the {chosen.choice(what)} ."


def corpus(seed: int) -> tuple[Tokenizer, dict[str, TokenStore]]:
    """Documents of one subject each, as sentences with an empty one behind each document; and a tokenizer of words."""
    chosen = random.Random(seed)

    def lines(count: int) -> Iterator[str]:
        for _ in range(count):
            subject = chosen.randrange(len(SUBJECTS))
            for _ in range(SENTENCES):
                yield sentence(subject, chosen)
            yield ""

    text = {split: [*lines(count)] for split, count in DOCUMENTS.items()}
    tokenizer = Tokenizer.train(Word(min_count=1), text["train"], specials=(*SPECIALS, MASK))
    stores = {}
    for split, found in text.items():
        rows = tokenizer.encode_batch(found)
        starts = np.cumsum([0, *map(len, rows)])
        stores[split] = TokenStore(np.concatenate([np.asarray(row, np.uint32) for row in rows]), starts)
    return tokenizer, stores
