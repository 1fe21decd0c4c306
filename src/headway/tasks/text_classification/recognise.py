"""Texts with classes by their signs: a table with a column of texts and a column of few, repeated values."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from headway.counts import counted
from headway.data.datasets import kinds_of
from headway.data.files import listed
from headway.data.table_columns import labelled_columns
from headway.data.table_survey import LABELS, TEXTS, TableSurvey, survey_table
from headway.data.tables import Pair
from headway.tasks.proposal import Confidence, Proposal, Reading

PRESET = "longformer-needle"
LENGTHS = (32, 64, 128, 256, 512)  # tokens that a text may have; longer ones are cut
EPOCHS = 12
STEPS = (150, 1000)  # at least, at most
BATCH_TOKENS = 2048
LONGEST_WORD = 20  # characters a word in the mean, beyond which a text is written without spaces
SHOWN = 6  # classes in a message


def recognise(spec: str, given: Mapping[str, str]) -> Proposal | None:
    """What to train on texts with classes. Raises DataError where several columns could be the classes."""
    kinds = kinds_of(spec)
    if kinds:
        if "texts with classes" not in kinds:
            return None
        sign = f"the built-in set {spec}"
        return Proposal(preset=PRESET, found="texts with classes", sign=sign, confidence=Confidence.FORMAT)
    table = survey_table(Path(spec).expanduser())
    pair = None if table is None else _columns(table, given)
    if table is None or pair is None:
        return None
    text, label = pair
    named = "data.label" in given or (label.casefold() in LABELS and text.casefold() in TEXTS)
    classes = table.classes(label)
    sign = f"the columns {text} and {label} ({listed(classes, most=SHOWN)}) of {table.path.name}"
    return Proposal(
        preset=PRESET,
        found="texts with classes",
        sign=f"{sign}, about {counted(table.count, 'row')}",
        confidence=Confidence.NAMES if named else Confidence.CONTENT,
        settings=_settings(table, text),
    )


def reading(spec: str, given: Mapping[str, str]) -> Reading:
    """The columns of the text and of its class."""
    if {"data.text", "data.label"} <= given.keys() or kinds_of(spec):
        return Reading()
    table = survey_table(Path(spec).expanduser())
    pair = None if table is None else _columns(table, given)
    if table is None or pair is None or table.in_order(*reversed(pair)):  # of unnamed ones the class is first
        return Reading()
    text, label = pair
    note = f"texts from column {text}, classes from column {label} (--data.text and --data.label choose others)"
    return Reading(settings={"data.text": text, "data.label": label}, note="" if given else note)


def _columns(table: TableSurvey, given: Mapping[str, str]) -> Pair | None:
    return labelled_columns(table, text=given.get("data.text"), label=given.get("data.label"))


def _settings(table: TableSurvey, text: str) -> dict[str, object]:
    """A recipe for a small table, in minutes on two cores: a tenth of the preset's batch, a few passes over the texts.

    Words that a table has once are unknown words, so that the model meets some; texts without spaces have no words.
    """
    cells = table.cells(text)
    counts = sorted(len(cell.split()) for cell in cells)
    spaced = sum(map(len, cells)) <= LONGEST_WORD * max(sum(counts), 1)
    longest = counts[int(0.95 * len(counts))] if spaced else table.characters(text)
    length = next((each for each in LENGTHS if longest + 2 <= each), LENGTHS[-1])
    mean = min(table.words(text) + 2, length)
    steps = round(EPOCHS * table.count * mean / BATCH_TOKENS)
    steps = min(max(10 * round(steps / 10), STEPS[0]), STEPS[1])
    tokenizer: dict[str, object] = {"data.tokenizer.lower": True, "data.tokenizer.min_count": 2}
    if not spaced:
        tokenizer = {"data.tokenizer": "bpe", "data.tokenizer.vocab": 4000, "data.tokenizer.fit": True}
    return {
        **tokenizer,
        "task.length": length,
        "model.encoder.dropout": 0.1,
        "train.steps": steps,
        "train.batch_tokens": BATCH_TOKENS,
        "train.schedule.warmup": steps // 10,
        "train.evaluate_every": steps // 5,
        "train.save_every": steps // 5,
    }
