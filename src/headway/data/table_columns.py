"""Which columns of a table hold texts, which classes, which pairs of texts.

A column is judged by its name (`LABELS`, `TEXTS`, `PAIRS`) and by the cells of the first rows. Nothing is guessed
between several: then a function returns None or raises a DataError that names the columns.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from headway.data.files import listed
from headway.data.table_survey import LABELS, LONGEST_NAME, PAIRS, SENTENCE, TEXTS, TableSurvey
from headway.data.tables import Pair
from headway.errors import DataError

LANGUAGE = re.compile(r"[A-Za-z]{2,3}([-_][A-Za-z]{2,4})?")
MAX_CLASSES = 200  # among the rows that are looked at


def labelled_columns(table: TableSurvey, *, text: str | None = None, label: str | None = None) -> Pair | None:
    """The columns (text, class) of a table of texts with classes, those given and those found; None if it is none.

    Raises DataError where several columns could be the one.
    """
    by_content = _class_columns(table)
    if label is None:
        label = next((name for name in _ordered(table, LABELS) if name in by_content and name != text), None)
    if text is None:
        text = next((name for name in _ordered(table, TEXTS) if name != label and not _is_numeric(table, name)), None)
    labels = [label] if label is not None else [name for name in by_content if name != text]
    texts = [text] if text is not None else [name for name in _text_columns(table) if name != label]
    if text is None and len(texts) > 1 and label is None:
        labels = [name for name in labels if name not in texts]
    if not labels or not texts:
        return None
    if len(labels) > 1:
        raise _unclear(table, "class", "--data.label", labels)
    if text is None:
        texts = [name for name in texts if name != labels[0]]
        if len(texts) > 1:
            raise _unclear(table, "text", "--data.text", texts)
    return (texts[0], labels[0]) if texts else None


def pair_columns(table: TableSurvey, *, source: str | None = None, target: str | None = None) -> Pair | None:
    """The columns (source, target) of a table of text pairs, those given and those found; None if it is none.

    Columns of languages, or the only two with text, are taken in their order. Raises DataError where there are more.
    """
    if source is not None and target is not None:
        return source, target
    texts = [name for name in _text_columns(table) if name not in (source, target)]
    if source is not None or target is not None:
        found = next((partner for name in (source, target) if (partner := _partner(table, name))), None)
        other = found or (texts[0] if len(texts) == 1 else None)
        if other is None:
            return None
        return (source, other) if source is not None else (other, target or "")
    for first, second in PAIRS:
        left, right = table.named([first]), table.named([second])
        if left is not None and left in texts and right is not None and not _is_class(table, right):
            return left, right
    if len(texts) > 2:
        texts = [name for name in texts if LANGUAGE.fullmatch(name)] or texts
    if len(texts) > 2:
        raise _unclear(table, "text", "--source and --target", texts)
    return (texts[0], texts[1]) if len(texts) == 2 else None


def text_column(table: TableSurvey) -> str | None:
    """The column with the text: by its name, or the only one with text; None if that is not clear."""
    texts = _text_columns(table)
    found = next((name for name in _ordered(table, TEXTS) if not _is_numeric(table, name)), None)
    return found or (texts[0] if len(texts) == 1 else None)


def has_classes(table: TableSurvey) -> bool:
    """Whether a column looks like classes."""
    return any(name not in _text_columns(table) for name in _class_columns(table))


def _text_columns(table: TableSurvey) -> list[str]:
    """Columns of text; of those, if some have several words in a cell, only these: others are ids, dates, links."""
    found = [name for name in table.columns if not _is_numeric(table, name) and not _is_class(table, name)]
    wordy = [name for name in found if table.words(name) >= 2]
    return wordy or found


def _class_columns(table: TableSurvey) -> list[str]:
    return [name for name in table.columns if _is_class(table, name)]


def _is_class(table: TableSurvey, name: str) -> bool:
    """Whether cells repeat, are short and few: whole numbers or names of classes."""
    cells = table.cells(name)
    distinct = set(cells)
    repeated = 2 <= len(distinct) <= max(len(cells) // 2, 2) and len(distinct) <= MAX_CLASSES
    brief = all(len(cell) <= LONGEST_NAME for cell in distinct) and table.words(name) < SENTENCE
    return repeated and brief and "" not in distinct and not any(re.search(r"\d[.,]\d", cell) for cell in distinct)


def _is_numeric(table: TableSurvey, name: str) -> bool:
    return all(re.fullmatch(r"\s*[-+]?[\d.,:/ ]*\d[\d.,:/ ]*(e[-+]?\d+)?\s*", cell, re.I) for cell in table.cells(name))


def _ordered(table: TableSurvey, names: Sequence[str]) -> list[str]:
    """The columns that have one of these names, in the order of the names."""
    return [found for name in names if (found := table.named([name])) is not None]


def _partner(table: TableSurvey, name: str | None) -> str | None:
    """The column that by its name goes with this one: `target` with `source`."""
    for first, second in PAIRS:
        for here, there in ((first, second), (second, first)):
            if name is not None and name.casefold() == here and (found := table.named([there])):
                return found
    return None


def _unclear(table: TableSurvey, what: str, option: str, several: Sequence[str]) -> DataError:
    return DataError(
        f"{table.path}: which column is the {what}? {listed(several)} could be; name it with {option} "
        f"(all columns: {listed(table.columns)})"
    )
