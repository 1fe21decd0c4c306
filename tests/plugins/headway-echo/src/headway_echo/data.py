"""The data set `echoes`: strings of bits, half of which repeat their first half."""

from __future__ import annotations

import random

from headway.data.config import DataConfig
from headway.data.datasets import Dataset
from headway.data.labelled_text import LabelledTexts, tokenise
from headway.data.text_files import ParallelText
from headway.data.tokenizers import Tokenizer

CLASSES = ("echo", "noise")
COUNTS = {"train": 200, "val": 40, "test": 40}
HALVES = (1, 2)  # lengths of a half


def pairs(split: str) -> tuple[tuple[str, str], ...]:
    """The class and the string of each example of a split."""
    draw = random.Random(f"echoes {split}")
    made = []
    for number in range(COUNTS[split]):
        half = draw.choice(HALVES)
        first = "".join(draw.choices("01", k=half))
        at = draw.randrange(half)
        other = first if number % 2 == 0 else f"{first[:at]}{1 - int(first[at])}{first[at + 1 :]}"
        made.append((CLASSES[number % 2], first + other))
    return tuple(made)


def load(data: DataConfig, tokenizer: Tokenizer | None, room: int) -> LabelledTexts:
    """The strings of all splits as tokens."""
    text = ParallelText(name="echoes", source="label", target="text", splits={name: pairs(name) for name in COUNTS})
    return tokenise(text, data, tokenizer)


ECHOES = Dataset("echoes", "texts with classes", load)
