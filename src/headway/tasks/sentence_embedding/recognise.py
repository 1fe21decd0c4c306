"""Recognising pairs of texts that belong together, by the names of their columns."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from headway.data.datasets import kinds_of
from headway.data.table_columns import has_classes, pair_columns
from headway.data.table_survey import TableSurvey, survey_table
from headway.tasks.proposal import Confidence, Proposal, Reading

PRESET = "sentence-encoder"
# As sentence-transformers and collections for retrieval call them; (source, target) and the like are to be translated.
NAMES = (("anchor", "positive"), ("query", "positive"), ("query", "passage"), ("sentence1", "sentence2"))
SCORED = "sentence1"  # how the first text is called in sets of pairs with scores or classes too
NEGATIVE = ("negative",)
EPOCHS = 8
ROWS = 128  # pairs a step
STEPS = (200, 4000)  # at least, at most


def recognise(spec: str, given: Mapping[str, str]) -> Proposal | None:
    """What to train on pairs of texts that belong together; others are left to translation."""
    if kinds_of(spec) or {"data.source", "data.target"} & given.keys():
        return None
    table = survey_table(Path(spec).expanduser())
    pair = None if table is None else _named(table)
    if table is None or pair is None or has_classes(table):
        return None
    negative = table.named(NEGATIVE)
    columns = [*pair, *([] if negative is None else [negative])]
    if pair[0].casefold() == SCORED and len(table.columns) > len(columns):
        return None  # a further column is a score or a class, whatever its name
    sign = f"the columns {' and '.join(columns)} of {table.path.name}, about {table.count:,} rows"
    steps = min(max(10 * round(EPOCHS * table.count / ROWS / 10), STEPS[0]), STEPS[1])
    return Proposal(
        preset=PRESET,
        found="pairs of texts that belong together",
        sign=sign,
        confidence=Confidence.FORMAT,  # surer than translation, which takes any two columns of text
        settings={
            "train.steps": steps,
            "train.schedule.warmup": steps // 10,
            "train.evaluate_every": steps // 5,
            "train.save_every": steps // 5,
            **({} if negative is None else {"task.negative": negative}),
        },
    )


def reading(spec: str, given: Mapping[str, str]) -> Reading:
    """The columns of the two texts."""
    if {"data.source", "data.target"} <= given.keys() or kinds_of(spec):
        return Reading()
    table = survey_table(Path(spec).expanduser())
    if table is None:
        return Reading()
    pair = _named(table) or pair_columns(table, source=given.get("data.source"), target=given.get("data.target"))
    if pair is None or table.in_order(*pair):
        return Reading()
    note = f"pairs of the columns {pair[0]} and {pair[1]} (--source and --target choose others)"
    return Reading(settings={"data.source": pair[0], "data.target": pair[1]}, note="" if given else note)


def _named(table: TableSurvey) -> tuple[str, str] | None:
    for first, second in NAMES:
        left, right = table.named((first,)), table.named((second,))
        if left is not None and right is not None:
            return left, right
    return None
