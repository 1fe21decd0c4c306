"""Recognising texts with labels: a folder of texts for each class, or a table with columns of texts and labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path

from headway.counts import counted
from headway.data.datasets import kinds_of
from headway.data.files import listed, read_chunks
from headway.data.image_files import subfolders
from headway.data.labelled_rows import class_folders, text_files
from headway.data.table_columns import LabelColumns, label_columns
from headway.data.table_survey import LABELS, TEXT_PAIRS, TEXTS, survey_table
from headway.errors import DataError
from headway.tasks.proposal import Confidence, Proposal, Reading

PRESET, LONG_PRESET = "bert-classifier", "longformer-needle"
LENGTHS = (32, 64, 128, 256, 512)  # tokens that a text may have; longer ones are cut
EPOCHS = 12
STEPS = (150, 1000)  # at least, at most
BATCH_TOKENS = 2048
VOCAB = 4000  # subwords at most
SUBWORDS = 1.5  # of a word, with this vocabulary: 28.5 for 18.6 words a review
LONGEST_WORD = 20  # characters a word in the mean, beyond which a text is written without spaces
SHOWN = 6  # classes in a message
SAMPLED = 40  # files of each class whose length is looked at
FOUND = {
    "single": "texts with classes",
    "multi": "texts with several labels each",
    "number": "texts with a number each",
}


def recognise(spec: str, given: Mapping[str, str]) -> Proposal | None:
    """What to train on texts with labels. Raises DataError where several columns could be the labels."""
    kinds = kinds_of(spec)
    if kinds:
        if "texts with classes" not in kinds:
            return None
        sign = f"the built-in set {spec}"
        return Proposal(preset=LONG_PRESET, found="texts with classes", sign=sign, confidence=Confidence.FORMAT)
    path = Path(spec).expanduser()
    if path.is_dir() and (folders := class_folders(path)):
        return _folders(folders["train"])
    table = survey_table(path)
    found = None if table is None else label_columns(table, given)
    if table is None or found is None:
        return None
    texts = tuple(name.casefold() for name in found.texts)
    known = texts in TEXT_PAIRS if found.text2 else texts[0] in TEXTS
    named = "data.label" in given or (found.label.casefold() in LABELS and known)
    flags = tuple(found.label.split(","))
    names = [name for name in found.classes if name.strip()]  # a row without a label is an error of its own
    classes = f" ({_classes(names, whole=len(table.rows) >= table.count)})" if names and found.classes != flags else ""
    *others, last = (*found.texts, *(flags if found.kind == "multi" else (found.label,)))
    sign = f"the columns {listed(others)} and {listed([last])}{classes}"
    what = FOUND[found.kind] if not found.text2 else FOUND[found.kind].replace("texts", "pairs of texts")
    return Proposal(
        preset=PRESET,
        found=what,
        sign=f"{sign} of {table.path.name}, about {counted(table.count, 'row')}",
        confidence=Confidence.NAMES if named else Confidence.CONTENT,
        settings=_settings([table.cells(name) for name in found.texts], table.count),
    )


def reading(spec: str, given: Mapping[str, str]) -> Reading:
    """The columns of the text and of its label, and what kind of label that is."""
    if {"data.text", "data.label", "task.labels"} <= given.keys() or kinds_of(spec):
        return Reading()
    path = Path(spec).expanduser()
    if path.is_dir() and class_folders(path):
        return Reading()
    table = survey_table(path)
    found = None if table is None else label_columns(table, given)
    if table is None or found is None:
        return Reading()
    settings = {"data.text": found.text, "data.label": found.label}
    if table.in_order(found.label, *found.texts) and not found.text2:  # of unnamed ones the label is first
        settings = {}
    if found.text2:
        settings["data.text2"] = found.text2
    if found.kind != "single":
        settings["task.labels"] = found.kind
    if found.kind == "multi" and found.separator != "|":
        settings["data.separator"] = found.separator
    return Reading(settings=settings, note="" if given or not settings else _note(found))


def _note(found: LabelColumns) -> str:
    what = {"single": "classes", "multi": "several labels", "number": "numbers"}[found.kind]
    plural = "columns" if "," in found.label else "column"
    if found.text2:
        texts = f"pairs of texts from columns {found.text} and {found.text2}"
    else:
        texts = f"texts from column {found.text}"
    chosen = "--data.text, --data.text2 and --data.label" if found.text2 else "--data.text and --data.label"
    kind = "" if found.kind == "single" else "; --task.labels says what they are"
    return f"{texts}, {what} from {plural} {found.label} ({chosen} choose others{kind})"


def _classes(names: Sequence[str], *, whole: bool) -> str:
    """The first classes; of a table whose beginning alone has been read, without a number of further ones."""
    return listed(names, most=SHOWN) if whole else f"{listed(names[:SHOWN])}, …"


def _folders(root: Path) -> Proposal:
    """A folder for each class."""
    classes = subfolders(root)
    files = {folder: text_files(folder) for folder in classes}
    count = sum(map(len, files.values()))
    cells = [_beginning(file) for each in files.values() for file in each[:SAMPLED]]
    names = listed([f"{folder.name}/" for folder in classes], most=SHOWN)
    return Proposal(
        preset=PRESET,
        found="texts with classes",
        sign=f"{len(classes)} class folders ({names}) with {count:,} files of text",
        confidence=Confidence.FORMAT,
        settings=_settings([cells], count),
    )


def _beginning(file: Path) -> str:
    try:
        return "".join(islice(read_chunks(file, errors="replace"), 1))
    except DataError:
        return ""


def _settings(columns: list[list[str]], count: int) -> dict[str, object]:
    """A recipe for `count` texts or pairs, by the first of them, in minutes on two cores: a few passes over the texts.

    Subwords, as of words split at spaces every eighth one of unseen reviews is unknown ("mundane." is another word than
    "mundane"); texts without spaces have as many tokens as characters at most.
    """
    rows = [" ".join(cells) for cells in zip(*columns, strict=True)]
    special = 1 + len(columns)
    counts = sorted(SUBWORDS * len(row.split()) for row in rows)
    spaced = sum(map(len, rows)) <= LONGEST_WORD / SUBWORDS * max(sum(counts), 1)
    characters = sum(map(len, rows)) / max(len(rows), 1)
    longest = counts[int(0.95 * len(counts))] if spaced else characters
    length = next((each for each in LENGTHS if longest + special <= each), LENGTHS[-1])
    mean = min((sum(counts) / max(len(counts), 1) if spaced else characters) + special, length)
    steps = round(EPOCHS * count * mean / BATCH_TOKENS)
    steps = min(max(10 * round(steps / 10), STEPS[0]), STEPS[1])
    return {
        "data.tokenizer": "bpe",
        "data.tokenizer.vocab": VOCAB,
        "data.tokenizer.fit": True,
        "task.length": length,
        "train.steps": steps,
        "train.batch_tokens": BATCH_TOKENS,
        "train.schedule.warmup": steps // 10,
        "train.evaluate_every": steps // 5,
        "train.save_every": steps // 5,
    }
