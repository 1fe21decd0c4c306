"""Entities in tags (B-PER, I-PER, O), and their precision, recall and F1.

Defined as by seqeval in its default mode, which follows conlleval (Tjong Kim Sang and De Meulder 2003): an entity is
right if its first word, its last word and its type are. An entity begins at B- or S-, and at I- or E- after another
type, after O or after the end of an entity. Figures are micro averages: all entities count alike.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

PREFIXES = ("B", "I", "E", "S")
OUTSIDE = "O"


class Entity(NamedTuple):
    """The type of an entity, its first word, and the one after its last."""

    type: str
    start: int
    stop: int


def parts_of(tag: str) -> tuple[str, str]:
    """The prefix, which is the first character, and the type of a tag; one of a single character has the type "_"."""
    return tag[:1], tag[1:].split("-", 1)[-1] or "_"


def entities(tags: Sequence[str]) -> list[Entity]:
    """The entities of one sentence, in their order, whether its tags are consistent or not."""
    found: list[Entity] = []
    before, held, start = OUTSIDE, "", 0
    for place, tag in enumerate((*tags, OUTSIDE)):
        prefix, type_ = parts_of(tag)
        if _ends(before, prefix, held, type_):
            found.append(Entity(held, start, place))
        if _begins(before, prefix, held, type_):
            start = place
        before, held = prefix, type_
    return found


def _ends(before: str, prefix: str, held: str, type_: str) -> bool:
    """Whether an entity ends with the first of two tags."""
    if before in ("E", "S") or (before in ("B", "I") and prefix in ("B", "S", OUTSIDE)):
        return True
    return before not in (OUTSIDE, ".") and held != type_


def _begins(before: str, prefix: str, held: str, type_: str) -> bool:
    """Whether an entity begins with the second of two tags."""
    if prefix in ("B", "S"):
        return True
    if prefix in ("E", "I") and before in ("E", "S", OUTSIDE):
        return True
    return prefix not in (OUTSIDE, ".") and held != type_


@dataclass(frozen=True, slots=True)
class EntityCounts:
    """How many entities there are, how many were predicted, and how many of those are right."""

    true: int
    predicted: int
    right: int

    @property
    def precision(self) -> float:
        """The share of predicted entities that are right; 0 if none is predicted."""
        return self.right / self.predicted if self.predicted else 0.0

    @property
    def recall(self) -> float:
        """The share of entities that are found; 0 without entities."""
        return self.right / self.true if self.true else 0.0

    @property
    def f1(self) -> float:
        """The harmonic mean of precision and recall; 0 if both are."""
        return 2 * self.right / (self.true + self.predicted) if self.right else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class EntityReport:
    """Counts of all entities, and of each type, sorted by name."""

    all: EntityCounts
    by_type: dict[str, EntityCounts]


def entity_report(true: Iterable[Sequence[str]], predicted: Iterable[Sequence[str]]) -> EntityReport:
    """The counts of sentences, true tags beside predicted ones of the same number."""
    there: Counter[str] = Counter()
    said: Counter[str] = Counter()
    right: Counter[str] = Counter()
    for gold, guess in zip(true, predicted, strict=True):
        # A set: with inconsistent tags an entity may be counted twice in a list.
        gold_entities, guessed = set(entities(gold)), set(entities(guess))
        there.update(entity.type for entity in gold_entities)
        said.update(entity.type for entity in guessed)
        right.update(entity.type for entity in gold_entities & guessed)
    types = sorted({*there, *said})
    return EntityReport(
        all=EntityCounts(there.total(), said.total(), right.total()),
        by_type={name: EntityCounts(there[name], said[name], right[name]) for name in types},
    )
