"""Writes tests/metrics/data/transcription.json: word and character errors as jiwer counts them.

jiwer and rapidfuzz are not dependencies of headway; install them elsewhere and name the folder:

    pip install --no-deps --target FOLDER jiwer rapidfuzz
    PYTHONPATH=FOLDER python -m tools.error_rate_cases
"""

from __future__ import annotations

import json
import random
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

TARGET = Path(__file__).parents[1] / "tests/metrics/data/transcription.json"
WORDS = [
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "oh", "the", "a", "naïve", "Zürich",
    "don't", "ok",
]  # fmt: skip
CASES, CORPORA = 260, 20
EDGES = [
    ("", ""), ("", "one"), ("one", ""), ("  one  two ", "one two"), ("one\ttwo", "one two"), ("one  two", "one two"),
    (" ", "one two"), ("Zürich", "Zurich"), ("a b c", "b c a"), ("a a a", "a"), ("one two", "onetwo"),
]  # fmt: skip


def pairs(chance: random.Random) -> list[tuple[str, str]]:
    """References with hypotheses: edited copies, a few unrelated ones, and the edges."""
    found = list(EDGES)
    while len(found) < CASES:
        words = chance.choices(WORDS, k=chance.randint(1, 14))
        few = chance.sample(WORDS, 3)  # few words make many alignments with as few edits
        words = words if chance.random() < 0.5 else chance.choices(few, k=len(words))
        other = list(words) if chance.random() < 0.85 else chance.choices(few, k=chance.randint(0, 14))
        for _ in range(chance.randint(0, 6)):
            place, kind = chance.randint(0, len(other)), chance.randint(0, 2)
            other[place : place + (kind < 2)] = [] if kind == 0 else [chance.choice(few)]
        found.append((" ".join(words), " ".join(other)))
    return found


def counted(output: Any, rate: float) -> dict[str, float | int]:
    """The counts of a result and its rate."""
    names = ("hits", "substitutions", "deletions", "insertions")
    return {"rate": rate, **{name: getattr(output, name) for name in names}}


def main() -> None:
    """Write the cases."""
    jiwer: Any = import_module("jiwer")
    made = pairs(random.Random(5))

    def scored(references: list[str], hypotheses: list[str]) -> dict[str, Any]:
        words = jiwer.process_words(references, hypotheses)
        characters = jiwer.process_characters(references, hypotheses)
        return {"words": counted(words, words.wer), "characters": counted(characters, characters.cer)}

    cases = [{"reference": one, "hypothesis": two, **scored([one], [two])} for one, two in made]
    step = len(made) // CORPORA
    corpora = [
        {"first": at, "count": step, **scored([one for one, _ in some], [two for _, two in some])}
        for at in range(0, step * CORPORA, step)
        for some in [made[at : at + step]]
    ]
    sources = {name: version(name) for name in ("jiwer", "rapidfuzz")}
    document = {"made_by": sources, "cases": cases, "corpora": corpora}
    TARGET.write_text(json.dumps(document, ensure_ascii=False, indent=0) + "\n")


if __name__ == "__main__":
    main()
