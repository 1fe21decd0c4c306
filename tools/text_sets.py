"""Generated tables of texts with labels, to try and to measure text classifiers on.

    python -m tools.text_sets FOLDER

`reviews.csv` (two classes; a negation turns a word around), `topics.csv` (paragraphs of Python's documentation by
topic), `entailment.csv` (pairs, three classes), `tags.csv` (several labels), `prices.csv` (numbers). Each has a seed.
"""

from __future__ import annotations

import csv
import random
import re
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

NOUNS = ("film", "book", "concert", "meal", "hotel", "game", "play", "album", "lecture", "walk")
GOOD = ("great", "wonderful", "lovely", "brilliant", "charming", "moving", "funny", "clever", "fresh", "fine")
BAD = ("awful", "boring", "terrible", "dull", "tedious", "poor", "weak", "silly", "flat", "bad")
FILLER = (
    "I saw it on Tuesday.", "We went with friends.", "It was raining outside.", "The seats were blue.",
    "My sister came along.", "It began at eight.", "Nobody asked for the price.", "There was a long queue.",
)  # fmt: skip
THINGS = {
    "dog": "animal", "cat": "animal", "horse": "animal", "rose": "plant", "oak": "plant", "tulip": "plant",
    "car": "vehicle", "bus": "vehicle", "train": "vehicle", "chair": "furniture", "table": "furniture",
}  # fmt: skip
PLACES = ("garden", "street", "kitchen", "station", "park", "yard")
TAGS = {
    "billing": ("the invoice is wrong", "I was charged twice", "please refund the payment"),
    "delivery": ("the parcel never arrived", "it was sent to an old address", "the courier left it outside"),
    "quality": ("the handle broke at once", "the colour is faded", "it stopped working after a week"),
    "praise": ("your staff were kind", "I love the design", "thank you for the quick answer"),
    "account": ("I cannot log in", "my password does not work", "please delete my profile"),
}
Row = Sequence[object]


def reviews(count: int, rng: random.Random) -> Iterable[Row]:
    """A sentence whose sense a negation turns around, among others that say nothing."""
    for _ in range(count):
        good, negated = rng.random() < 0.5, rng.random() < 0.5
        word = rng.choice(GOOD if good != negated else BAD)
        said = f"the {rng.choice(NOUNS)} was {'not ' if negated else ''}{word} ."
        parts = [*rng.sample(FILLER, rng.randint(0, 3)), said]
        rng.shuffle(parts)
        yield " ".join(parts), "pos" if good else "neg"


def topics(count: int, rng: random.Random) -> Iterable[Row]:
    """Paragraphs of the topics of Python's documentation that have most of them: a class each."""
    from pydoc_data.topics import topics as texts

    found = []
    for name, text in texts.items():
        paragraphs = [" ".join(part.split()) for part in re.split(r"\n\s*\n", text)]
        found.append((name, [part for part in paragraphs if 12 <= len(part.split()) <= 80]))
    found.sort(key=lambda each: (-len(each[1]), each[0]))
    chosen: list[tuple[str, list[str]]] = []
    seen: set[str] = set()
    for name, paragraphs in found:  # topics repeat each other: a paragraph belongs to the first
        fresh = [part for part in paragraphs if part not in seen]
        if len(fresh) >= len(paragraphs) / 2 and len(chosen) < 8:
            chosen.append((name, fresh))
            seen.update(fresh)
    rows = [(part, name) for name, paragraphs in chosen for part in paragraphs]
    rng.shuffle(rows)
    return rows[:count]


def entailment(count: int, rng: random.Random) -> Iterable[Row]:
    """A premise, and a hypothesis that follows, contradicts it, or does neither."""
    for _ in range(count):
        thing, place = rng.choice(tuple(THINGS)), rng.choice(PLACES)
        label = rng.choice(("follows", "contradicts", "open"))
        premise = f"there is a {thing} in the {place} ."
        if label == "follows":
            hypothesis = f"the {place} has {'some ' if rng.random() < 0.5 else 'a kind of '}{THINGS[thing]} in it ."
        elif label == "contradicts":
            hypothesis = f"there is no {rng.choice((thing, THINGS[thing]))} in the {place} ."
        else:
            other = rng.choice([each for each in PLACES if each != place])
            hypothesis = f"the {other} has some {rng.choice(tuple(THINGS.values()))} in it ."
        yield premise, hypothesis, label


def tags(count: int, rng: random.Random) -> Iterable[Row]:
    """A message about one to three matters, each a label."""
    for _ in range(count):
        chosen = rng.sample(sorted(TAGS), rng.choice((1, 1, 2, 2, 3)))
        yield " , and ".join(rng.choice(TAGS[name]) for name in chosen), "|".join(sorted(chosen))


def prices(count: int, rng: random.Random) -> Iterable[Row]:
    """An advertisement whose price is a sum over what it says, and some noise."""
    worth = {"car": 9000, "bicycle": 400, "piano": 2500, "boat": 6000}
    state = {"new": 1.0, "used": 0.6, "old": 0.3, "broken": 0.1}
    for _ in range(count):
        thing, how, extra = rng.choice(sorted(worth)), rng.choice(sorted(state)), rng.random() < 0.5
        price = worth[thing] * state[how] * (1.2 if extra else 1.0) + rng.gauss(0, 100)
        yield f"for sale : {how} {thing} {'with accessories' if extra else 'as seen'}", round(max(price, 1.0), 2)


SETS = {
    "reviews": (reviews, ("text", "label"), 2000),
    "topics": (topics, ("text", "label"), 2000),
    "entailment": (entailment, ("premise", "hypothesis", "label"), 2000),
    "tags": (tags, ("text", "labels"), 1500),
    "prices": (prices, ("text", "score"), 1500),
}


def main(folder: Path) -> None:
    """Write every table."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, (name, (make, header, count)) in enumerate(SETS.items()):
        with (folder / f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([header, *make(count, random.Random(number))])


if __name__ == "__main__":
    main(Path(sys.argv[1]))
