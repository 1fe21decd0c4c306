"""Multiple-choice questions: a context, a question, and choices of which one is right; JSONL, CSV, TSV, or by name."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from headway.counts import counted
from headway.data.datasets import find_dataset
from headway.data.files import Errors, listed, without_gz
from headway.data.split_files import files_by_split
from headway.data.tables import checked_text, read_objects, read_separated
from headway.data.token_store import fingerprint
from headway.errors import DataError, shown

ENDINGS = (".jsonl", ".csv", ".tsv")
# Names of keys and columns, the first that is there: ours, then those of SWAG, HellaSwag, RACE and CommonsenseQA.
CONTEXTS = ("context", "passage", "article", "sent1", "ctx", "text")
QUESTIONS = ("question", "sent2", "query")
CHOICES = ("choices", "options", "endings")
ANSWERS = ("answer", "label", "answerKey", "correct", "gold")
CHOICE_COLUMN = re.compile(r"(?:choice|option|ending|answer)[ _-]?([0-9]{1,2}|[A-Za-z])", re.IGNORECASE)
MOST_CHOICES = 26
AROUND = 40  # characters of a text in a message


class ChoiceQuestion(NamedTuple):
    """A context and a question, of which one may be empty, the choices, and the number of the right one, from 0."""

    id: str
    context: str
    question: str
    choices: tuple[str, ...]
    right: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ChoiceSet:
    """Multiple-choice questions by split; `name` identifies the set in error messages."""

    name: str
    splits: Mapping[str, Sequence[ChoiceQuestion]]
    notes: tuple[str, ...] = ()  # rows that were left out

    def fingerprint(self, split: str) -> str:
        """A digest of a split, independent of files and formats."""
        return fingerprint(
            part
            for each in self.splits[split]
            for part in (each.context, each.question, *each.choices, str(each.right), "")
        )


def load_choices(spec: str, *, errors: Errors = "strict", whole: bool = False, skip_bad: bool = False) -> ChoiceSet:
    """Multiple-choice questions by name or path: a file, whose last tenth is val, or a folder with a file a split.

    Questions about one context stay together. `whole` makes all of a file `test`, `skip_bad` leaves out rows that are
    wrong and says how many. Raises DataError naming the file and the row.
    """
    dataset = find_dataset(spec, "multiple-choice questions")
    if dataset is not None:
        found: ChoiceSet = dataset.load()
        return found
    path = Path(spec).expanduser()
    files = choice_files(path)
    notes: list[str] = []
    splits = {split: _read(file, errors, skip_bad, notes) for split, file in files.items()}
    if whole and splits.keys() == {"train"}:
        splits["test"] = splits["train"]
    elif "val" not in splits:
        splits.update(_held_out(files["train"], splits["train"]))
    ordered: dict[str, list[ChoiceQuestion]] = {split: splits[split] for split in ("train", "val") if split in splits}
    return ChoiceSet(name=str(path), splits={**ordered, **splits}, notes=tuple(notes))


def choice_files(path: Path) -> dict[str, Path]:
    """The file of each split; a file alone is train. Raises DataError for a folder without a train file."""
    return files_by_split(path, ENDINGS, "train.jsonl, train.csv or train.tsv")


def _read(path: Path, errors: Errors, skip_bad: bool, notes: list[str]) -> list[ChoiceQuestion]:
    """The questions of a file; what is left out is added to `notes`."""
    kept, bad, first = list[ChoiceQuestion](), 0, ""
    for where, row in choice_rows(path, errors=errors):
        try:
            kept.append(parse_choices(where, row))
        except DataError as error:
            if not skip_bad:
                raise
            bad, first = bad + 1, first or str(error)
    if not kept:
        raise DataError(f"{path}: no question, expected at least 1{f'; {first}' if first else ''}")
    if bad:
        notes.append(f"{path}: {counted(bad, 'row')} left out; the first: {first}")
    return kept


def choice_rows(path: Path, *, errors: Errors = "strict") -> Iterator[tuple[str, dict[str, Any]]]:
    """The rows of a file by key or column, each with its place for messages; choice columns are gathered in a list.

    Raises DataError for another kind of file, or a table without choice columns.
    """
    if without_gz(path).lower().endswith(".jsonl"):
        yield from read_objects(path, errors=errors)
        return
    if not without_gz(path).lower().endswith(ENDINGS):
        raise DataError(f"{path}: not a file of multiple-choice questions; allowed: {', '.join(ENDINGS)}")
    header: list[str] | None = None
    for number, cells in read_separated(path, errors=errors):
        where = f"{path}: line {number}"
        if header is None:
            header = [cell.strip() for cell in cells]
            columns = choice_columns(header)
            if len(columns) < 2:
                raise DataError(
                    f"{path}: {counted(len(columns), 'column')} of choices, expected at least 2, named choice1, "
                    f"choice2, … (or option, ending); there are: {listed(header)}"
                )
            continue
        if len(cells) != len(header):
            raise DataError(f"{where} has {counted(len(cells), 'column')}, expected {len(header)}")
        row: dict[str, Any] = {name: cell for name, cell in zip(header, cells, strict=True) if name not in columns}
        given = {name: cell for name, cell in zip(header, cells, strict=True) if name in columns and cell.strip()}
        yield where, {**row, CHOICES[0]: [given[name] for name in columns if name in given]}


def choice_columns(header: Sequence[str]) -> list[str]:
    """The columns of choices in the order of their numbers or letters."""
    found = [(match[1], name) for name in header if (match := CHOICE_COLUMN.fullmatch(name))]
    return [name for _, name in sorted(found, key=lambda each: (len(each[0]), each[0].lower()))]


def parse_choices(where: str, row: Mapping[str, Any], *, answered: bool = True) -> ChoiceQuestion:
    """A question of a row. Raises DataError; `answered`: the right choice must be there, else it is -1."""
    context, question = (_text(where, row, known) for known in (CONTEXTS, QUESTIONS))
    key = _key(row, CHOICES)
    if key is None:
        raise DataError(f"{where}: no key {shown(CHOICES[0])}; there are: {listed([shown(each) for each in row])}")
    texts, labels = _choices(where, key, row[key])
    if not context.strip() and not question.strip():
        raise DataError(f"{where}: neither a context nor a question")
    name = str(row.get("id", where.rpartition(" ")[2]))
    if not answered:
        return ChoiceQuestion(name, context, question, texts, -1)
    key = _key(row, ANSWERS)
    if key is None:
        raise DataError(f"{where}: no key {shown(ANSWERS[0])}; there are: {listed([shown(each) for each in row])}")
    return ChoiceQuestion(name, context, question, texts, _right(where, key, row[key], texts, labels))


def _key(row: Mapping[str, Any], known: Sequence[str]) -> str | None:
    return next((name for name in known if name in row), None)


def _text(where: str, row: Mapping[str, Any], known: Sequence[str]) -> str:
    key = _key(row, known)
    return "" if key is None or row[key] is None else checked_text(where, key, row[key])


def _choices(where: str, key: str, value: Any) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The texts of the choices, and their labels: a list, or two lists text and label."""
    labels: Any = ()
    if isinstance(value, dict):
        value, labels = value.get("text"), value.get("label", ())
    if not isinstance(value, list) or not isinstance(labels, list | tuple) or (labels and len(labels) != len(value)):
        raise DataError(f"{where}: {shown(value, AROUND)} as {key}, expected a list of strings")
    texts = tuple(checked_text(where, key, each) for each in value)
    if not 2 <= len(texts) <= MOST_CHOICES:
        raise DataError(f"{where}: {counted(len(texts), 'choice')}, expected 2 to {MOST_CHOICES}")
    if not all(map(str.strip, texts)):
        raise DataError(f"{where}: an empty choice")
    if twice := next((text for n, text in enumerate(texts) if text in texts[:n]), None):
        raise DataError(f"{where}: the choice {shown(twice, AROUND)} is there twice")
    return texts, tuple(map(str, labels))


def _right(where: str, key: str, value: Any, texts: Sequence[str], labels: Sequence[str]) -> int:
    """The number of the right choice, given as its label, its text, its letter or its number from 0."""
    wanted = value.strip() if isinstance(value, str) else value
    places: dict[Any, int] = {n: n for n in range(len(texts))} | {str(n): n for n in range(len(texts))}
    places |= {chr(ord("A") + n): n for n in range(len(texts))}
    places |= {text.strip(): n for n, text in enumerate(texts)} | {label: n for n, label in enumerate(labels)}
    if isinstance(wanted, bool) or not isinstance(wanted, str | int) or wanted not in places:
        raise DataError(
            f"{where}: {shown(value, AROUND)} as {key}, expected the text of a choice, its letter from A, or its "
            f"number from 0 to {len(texts) - 1}"
        )
    return places[wanted]


def _held_out(path: Path, questions: list[ChoiceQuestion]) -> dict[str, list[ChoiceQuestion]]:
    """Train and val: the questions of the last tenth of contexts, so that no context is in both."""
    contexts = list(dict.fromkeys(each.context or each.question for each in questions))
    if len(contexts) < 2:
        raise DataError(f"{path}: 1 context, expected at least 2: the last tenth is val")
    held = set(contexts[len(contexts) - max(1, len(contexts) // 10) :])
    return {
        "train": [each for each in questions if (each.context or each.question) not in held],
        "val": [each for each in questions if (each.context or each.question) in held],
    }
