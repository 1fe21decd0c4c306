"""Recognising parallel text: training files that differ in their ending, or a table with two columns of text."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from headway.counts import counted
from headway.data.datasets import kinds_of
from headway.data.files import listed
from headway.data.parallel_files import languages
from headway.data.table_columns import has_classes, pair_columns
from headway.data.table_survey import PAIRS, TableSurvey, survey_table
from headway.data.tables import Pair
from headway.errors import DataError
from headway.tasks.proposal import Confidence, Proposal, Reading

PRESET = "transformer-tiny"
ENGLISH = ("en", "eng", "english")
# A first model in minutes on two cores: 1,500 such steps on 29,000 pairs of Multi30k (English-Czech) took 9 CPU minutes
# and reached BLEU 17. The preset's own recipe, 8,000 steps of 8,192 tokens, takes hours there.
FIRST_MODEL: dict[str, object] = {
    "data.tokenizer.vocab": 3000,
    "data.tokenizer.fit": True,
    "model.encoder_layers": 3,
    "model.decoder_layers": 3,
    "model.dropout": 0.1,
    "train.steps": 1500,
    "train.batch_tokens": 2048,
    "train.learning_rate": 0.0012,  # the preset's is for batches of four times that size
    "train.schedule.warmup": 100,
}


def recognise(spec: str, given: Mapping[str, str]) -> Proposal | None:
    """What to train on pairs of texts. Raises DataError for more than two languages."""
    kinds = kinds_of(spec)
    if kinds:
        if "parallel text" not in kinds:
            return None
        return _proposal("pairs of texts", f"the built-in set {spec}", Confidence.FORMAT)
    path = Path(spec).expanduser()
    if path.is_dir() and len(found := languages(path)) > 1:
        _direction(path, found, given)
        files = " and ".join(file.name for _, file in sorted(found.items()))
        return _proposal("parallel text", f"{files} in {path}", Confidence.FORMAT)
    table = survey_table(path)
    pair = None if table is None else _columns(table, given)
    if table is None or pair is None:
        return None
    named = tuple(name.casefold() for name in pair) in PAIRS or "data.source" in given or "data.target" in given
    if has_classes(table) and not named:
        return None
    sign = f"the columns {pair[0]} and {pair[1]} of {table.path.name}, about {counted(table.count, 'row')}"
    return _proposal("pairs of texts", sign, Confidence.NAMES if named else Confidence.CONTENT)


def reading(spec: str, given: Mapping[str, str]) -> Reading:
    """The source and the target: of two languages English is the source, otherwise they go by the alphabet; columns of
    a table go by their order.
    """
    if {"data.source", "data.target"} <= given.keys() or kinds_of(spec):
        return Reading()
    path = Path(spec).expanduser()
    if path.is_dir() and len(found := languages(path)) > 1:
        pair, rule = _direction(path, found, given), "English first, else by the alphabet"
    else:
        table = survey_table(path)
        columns = None if table is None else _columns(table, given)
        if table is None or columns is None or table.in_order(*columns):
            return Reading()
        pair, rule = columns, "in the order of the columns"
    source, target = pair
    note = f"from {source} to {target} ({rule}); --source {target} --target {source} turns it around"
    return Reading(
        settings={"data.source": source, "data.target": target},
        note="" if {"data.source", "data.target"} & given.keys() else note,
    )


def _columns(table: TableSurvey, given: Mapping[str, str]) -> Pair | None:
    return pair_columns(table, source=given.get("data.source"), target=given.get("data.target"))


def _direction(folder: Path, found: Mapping[str, Path], given: Mapping[str, str]) -> tuple[str, str]:
    """The source and the target language of a folder. Raises DataError where more than two could be meant."""
    source, target = given.get("data.source"), given.get("data.target")
    wanted = 2 - sum(each is not None for each in (source, target))
    rest = sorted(found.keys() - {source, target}, key=lambda name: (name.lower() not in ENGLISH, name))
    if len(rest) > wanted > 0:
        first = source if source in found else rest[0]
        second = target if target in found else next(each for each in rest if each != first)
        named = listed(sorted(found))
        option = f"name two, such as --source {first} --target {second}"
        raise DataError(f"{folder}: training files in {len(found)} languages ({named}): {option}")
    others = iter(rest)
    return source or next(others), target or next(others)


def _proposal(found: str, sign: str, confidence: Confidence) -> Proposal:
    return Proposal(preset=PRESET, found=found, sign=sign, confidence=confidence, settings=FIRST_MODEL, pairs=True)
