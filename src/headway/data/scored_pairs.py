"""Pairs of texts with a similarity score, as in STS-B (Cer et al. 2017): tables with a score beside two texts."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from headway.data.files import Errors
from headway.data.table_survey import TEXT_PAIRS, TableSurvey, survey_table
from headway.data.tables import read_objects, read_rows, read_separated, suffix
from headway.data.text_files import table_splits
from headway.errors import DataError, shown

SCORES = ("score", "similarity", "similarity_score", "relatedness_score", "relatedness", "gold_score")
MAYBE = ("label", "labels", "gold", "target")  # a score where the first rows have numbers alone
STSB = ("6", "7", "5")  # texts and score of STS-B's own files, which have no header and up to nine columns
AROUND = 40  # characters of a cell in a message
_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")


class ScoredPair(NamedTuple):
    """Two texts, and how similar they are."""

    first: str
    second: str
    score: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredPairs:
    """Pairs with scores by split; a file alone is `test`."""

    name: str
    splits: Mapping[str, list[ScoredPair]]


def load_scored_pairs(spec: str, *, errors: Errors = "strict") -> ScoredPairs | None:
    """The pairs of a table, or of a folder with a table a split; None for data without a column of scores.

    Raises DataError naming the file and the line for a score that is not a number, and for an empty text.
    """
    path = Path(spec).expanduser()
    files = table_splits(path) if path.is_dir() else {"test": path}
    surveys = {split: table for split, file in files.items() if (table := survey_table(file)) is not None}
    columns = {split: found for split, table in surveys.items() if (found := score_columns(table)) is not None}
    if not columns or columns.keys() != files.keys():
        return None
    splits = {split: list(_pairs(surveys[split], columns[split], errors)) for split in columns}
    for split, pairs in splits.items():
        if len({pair.score for pair in pairs}) < 2:
            given = f"all {len(pairs):,} scores are {pairs[0].score:g}" if pairs else "no pair"
            raise DataError(f"{files[split]}: {given}, expected at least two different ones for a correlation")
    return ScoredPairs(name=str(path), splits=splits)


def score_columns(table: TableSurvey) -> tuple[str, str, str] | None:
    """The columns of both texts and of the score; None for a table without them."""
    if not table.header:
        return _unnamed(table)
    pair = next(
        ((one, two) for names in TEXT_PAIRS if (one := table.named(names[:1])) and (two := table.named(names[1:]))),
        None,
    )
    score = table.named(SCORES)
    if score is None and (maybe := table.named(MAYBE)) is not None and _numeric(table, maybe):
        score = maybe
    return None if pair is None or score is None else (*pair, score)


def _unnamed(table: TableSurvey) -> tuple[str, str, str] | None:
    """The columns of a table without a header: STS-B's own, or two texts with a score before or after them."""
    forms = {3: (("1", "2", "3"), ("2", "3", "1")), 7: (STSB,)}.get(min(len(table.columns), 7), ())
    for first, second, score in forms:
        if _numeric(table, score) and not _numeric(table, first) and not _numeric(table, second):
            return first, second, score
    return None


def _numeric(table: TableSurvey, column: str) -> bool:
    return bool(table.rows) and all(_NUMBER.fullmatch(cell.strip()) for cell in table.cells(column))


def _pairs(table: TableSurvey, columns: tuple[str, str, str], errors: Errors) -> Iterator[ScoredPair]:
    for where, (first, second, score) in _cells(table, columns, errors):
        for name, text in zip(columns, (first, second), strict=False):
            if not text.strip():
                raise DataError(f"{where}: an empty text in column {name}")
        try:
            number = float(score)
        except ValueError:
            number = math.nan
        if not math.isfinite(number):
            raise DataError(f"{where}: {shown(score, AROUND)} as {columns[2]}, expected a number")
        yield ScoredPair(first, second, number)


def _cells(table: TableSurvey, columns: tuple[str, str, str], errors: Errors) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The cells of the columns, each row with its place for messages."""
    path = table.path
    if suffix(path) not in (".csv", ".tsv"):
        rows = read_rows(path, *columns, errors=errors, values=columns[2:])
        places = (where for where, _ in read_objects(path, errors=errors)) if suffix(path) == ".jsonl" else None
        for number, cells in enumerate(rows, start=1):
            yield f"{path}: row {number}" if places is None else next(places), cells
        return
    chosen = [table.columns.index(name) for name in columns]
    for count, (number, row) in enumerate(read_separated(path, errors=errors)):
        where = f"{path}: line {number}"
        if table.header and not count:
            continue
        # STS-B's own files name the sources of some pairs in further columns.
        if len(row) < len(table.columns) and (table.header or len(row) <= max(chosen)):
            raise DataError(f"{where} has {len(row)} columns, expected {len(table.columns)}")
        yield where, tuple(row[place] for place in chosen)
