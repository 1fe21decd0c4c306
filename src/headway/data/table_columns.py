"""Which columns of a table hold texts, which classes, which pairs of texts.

A column is judged by its name (`LABELS`, `TEXTS`, `PAIRS`) and by the cells of the first rows. Nothing is guessed
between several: then a function returns None or raises a DataError that names the columns.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headway.data.files import listed
from headway.data.labelled_rows import MAX_CLASSES, LabelKind
from headway.data.table_survey import LABELS, LONGEST_NAME, PAIRS, SENTENCE, TEXT_PAIRS, TEXTS, TableSurvey
from headway.data.tables import Pair
from headway.documents import parse_json
from headway.errors import DataError

LANGUAGE = re.compile(r"[A-Za-z]{2,3}([-_][A-Za-z]{2,4})?")
SEPARATORS = ("|", ";", ",")  # between the labels in a cell
LONGEST_LABEL = 3  # words of one of several labels
FLAGS = frozenset({"0", "1"})
FEW_ROWS = 20  # below, classes that do not repeat are told by the names of the columns alone


class UnclearLabelError(DataError):
    """Several columns could be the class."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelColumns:
    """The columns of texts with labels: the text, the second one of pairs ("": none), and the label."""

    text: str
    label: str  # or several 0/1 columns, with commas between them
    text2: str = ""
    kind: LabelKind = "single"
    separator: str = "|"
    classes: tuple[str, ...] = ()  # in the rows that were looked at

    @property
    def texts(self) -> tuple[str, ...]:
        """The columns of text."""
        return (self.text, self.text2) if self.text2 else (self.text,)


def label_columns(table: TableSurvey, given: Mapping[str, str]) -> LabelColumns | None:
    """The columns of a table of texts with labels, given (`data.text`, …) or found; None for any other table.

    A label is a class where values are few and repeat, several where a cell holds a list or separated names or where
    columns have 0 and 1 only, and a number where a column with the name of a label has fractions or very many numbers.
    Raises DataError where several columns could be the one.
    """
    text, text2, label = (given.get(f"data.{name}") for name in ("text", "text2", "label"))
    kind = given.get("task.labels")
    pair = (text, text2 or "") if text else _text_pair(table)
    found: Pair | None = None
    if kind in (None, "single") and label not in table.lists:
        try:
            found = labelled_columns(table, text=pair[0] if pair else None, label=label)
        except DataError:
            if kind or label or not _flag_columns(table):
                raise
        if found is not None and _is_class(table, found[1]):
            several = None if kind else _several(table, found[1], given.get("data.separator"))
            # Combinations of labels are more than the labels; class names with a comma in them are not.
            one = several is None or (several[0] != "|" and len(several[1]) >= len(table.classes(found[1])))
            if one and (kind or not _is_flags_table(table, label)):
                return _with_class(table, pair, found)
    names = [label] if label is not None else [*_ordered(table, LABELS), *table.lists]
    for name in names if kind in (None, "multi") else ():
        if several := _several(table, name, given.get("data.separator")):
            return _with_text(table, pair, name, "multi", several)
    if kind == "number" and not any(name in table.columns for name in names):
        names = [
            name for name in table.columns if name not in (pair or ()) and _is_number(table, name, any_number=True)
        ]
        if len(names) > 1:
            raise _unclear(table, "number", "--data.label", names)
    for name in names if kind in (None, "number") else ():
        if name in table.columns and _is_number(table, name, any_number=kind == "number"):
            return _with_text(table, pair, name, "number", ("|", ()))
    if label is None and kind in (None, "multi") and (flags := _flag_columns(table)):
        return _with_text(table, pair, ",".join(flags), "multi", ("|", tuple(flags)))
    if found is not None:  # the user names a label column that does not fit; training names what is wrong
        return _with_class(table, pair, found)
    if label is not None and kind is not None:
        return _with_text(table, pair, label, "multi" if kind == "multi" else "number", ("|", ()))
    return None


def _with_class(table: TableSurvey, pair: Pair | None, found: Pair) -> LabelColumns:
    text, label = found
    return LabelColumns(text=text, text2=pair[1] if pair else "", label=label, classes=table.classes(label))


def _with_text(
    table: TableSurvey, pair: Pair | None, label: str, kind: LabelKind, cells: tuple[str, tuple[str, ...]]
) -> LabelColumns | None:
    separator, classes = cells
    text, text2 = pair or (_own_text(table, label), "")
    if not text:
        return None
    return LabelColumns(text=text, text2=text2, label=label, kind=kind, separator=separator, classes=classes)


def _own_text(table: TableSurvey, label: str) -> str:
    """The column of the text beside a label: by its name, else the only one."""
    texts = [name for name in _text_columns(table) if name != label]
    named = [name for name in _ordered(table, TEXTS) if name != label and not _is_numeric(table, name)]
    found = named[0] if named else None
    if found is None and len(texts) > 1:
        raise _unclear(table, "text", "--data.text", texts)
    return found or (texts[0] if texts else "")


def _text_pair(table: TableSurvey) -> Pair | None:
    """Two columns that by their names are the texts of a pair."""
    for first, second in TEXT_PAIRS:
        found = table.named([first]), table.named([second])
        if found[0] and found[1] and not any(name and _is_numeric(table, name) for name in found):
            return found[0], found[1]
    return None


def _several(table: TableSurvey, name: str, separator: str | None) -> tuple[str, tuple[str, ...]] | None:
    """The separator and the labels of a column whose cells hold several names each; None for another column."""
    if name in table.lists:
        return ("|", _labels(table.lists[name])) if _repeat(table.lists[name]) else None
    if name not in table.columns:
        return None
    cells = table.cells(name)
    if all(not cell.strip() or cell.strip().startswith("[") for cell in cells) and any(map(str.strip, cells)):
        found = tuple(_listed(cell) for cell in cells)
        return ("|", _labels(found)) if _repeat(found) else None
    for each in [separator] if separator else SEPARATORS:
        found = tuple(tuple(part.strip() for part in cell.split(each) if part.strip()) for cell in cells)
        if any(len(parts) > 1 for parts in found) and _repeat(found):
            return each, _labels(found)
    return None


def _listed(cell: str) -> tuple[str, ...]:
    try:
        found = parse_json(cell, "a cell") if cell.strip() else []
    except DataError:
        return (cell,)
    return tuple(map(str, found)) if isinstance(found, list) else (cell,)


def _repeat(cells: Sequence[Sequence[str]]) -> bool:
    """Whether the names in these cells are short, few and repeat."""
    names = [name for cell in cells for name in cell]
    different = set(names)
    brief = all(len(name) <= LONGEST_NAME and len(name.split()) <= LONGEST_LABEL for name in different)
    return 2 <= len(different) <= min(max(len(names) // 2, 2), MAX_CLASSES) and brief


def _labels(cells: Sequence[Sequence[str]]) -> tuple[str, ...]:
    return tuple(sorted({name for cell in cells for name in cell}))


def _is_number(table: TableSurvey, name: str, *, any_number: bool) -> bool:
    """Whether all cells are numbers, with fractions among them or more of them than classes; or any numbers."""
    try:
        values = [float(cell) for cell in table.cells(name) if cell.strip()]
    except ValueError:
        return False
    fractions = any(value % 1 for value in values)
    return bool(values) and (any_number or fractions or len(set(values)) > max(len(values) // 2, 2))


def _flag_columns(table: TableSurvey) -> list[str]:
    """Two or more columns of 0 and 1 only; [] if there are fewer."""
    found = [name for name in table.columns if set(table.cells(name)) <= FLAGS and not name.isdecimal()]
    return found if len(found) > 1 else []


def _is_flags_table(table: TableSurvey, label: str | None) -> bool:
    """Whether several 0/1 columns are the labels: no label is named, and no other column has the name of one."""
    return label is None and bool(_flag_columns(table)) and not _ordered(table, LABELS)


def labelled_columns(table: TableSurvey, *, text: str | None = None, label: str | None = None) -> Pair | None:
    """The columns (text, class) of a table of texts with classes, given or found; None for any other table.

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
        raise UnclearLabelError(_which(table, "class", "--data.label", labels))
    if text is None:
        texts = [name for name in texts if name != labels[0]]
        if len(texts) > 1:
            raise _unclear(table, "text", "--data.text", texts)
    return (texts[0], labels[0]) if texts else None


def pair_columns(table: TableSurvey, *, source: str | None = None, target: str | None = None) -> Pair | None:
    """The columns (source, target) of a table of text pairs, given or found; None for any other table.

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
    """Whether cells repeat, are short and few: whole numbers or names of classes.

    A column that has the name of a label, beside one with the name of a text, may also have a single class, as in a
    table that is sorted by class, some empty cells, and in a few rows as many classes as rows: training names what is
    wrong with them.
    """
    cells = table.cells(name)
    distinct = set(cells)
    named = _has_label_name(table, name)
    most = len(cells) if named and len(cells) < FEW_ROWS and not _is_numeric(table, name) else len(cells) // 2
    repeated = (1 if named else 2) <= len(distinct - {""}) and len(distinct) <= min(max(most, 2), MAX_CLASSES)
    brief = all(len(cell) <= LONGEST_NAME for cell in distinct) and table.words(name) < SENTENCE
    filled = "" not in distinct or (named and cells.count("") <= len(cells) // 2)
    return repeated and brief and filled and not any(re.search(r"\d[.,]\d", cell) for cell in distinct)


def _has_label_name(table: TableSurvey, name: str) -> bool:
    """Whether a column has the name of a label, and another the name of a text."""
    texts = [other for other in _ordered(table, TEXTS) if other != name]
    return name.casefold() in LABELS and bool(texts)


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
    return DataError(_which(table, what, option, several))


def _which(table: TableSurvey, what: str, option: str, several: Sequence[str]) -> str:
    return (
        f"{table.path}: which column is the {what}? {listed(several)} could be; name it with {option} "
        f"(all columns: {listed(table.columns)})"
    )
