"""Recognising sets of vectors: an .npz with an array x of three dimensions, or a table of numbers with a column
that names the set of each row.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from headway.data.datasets import kinds_of
from headway.data.files import listed, listing
from headway.data.npz_files import read_headers
from headway.data.table_survey import LABELS, TableSurvey, survey_table
from headway.data.vector_files import NPZ, ending, find_group
from headway.data.vectors import find_splits_of_vectors
from headway.errors import DataError
from headway.tasks.proposal import Confidence, Proposal, Reading

PRESET = "vectors"
EPOCHS = 30
BATCH = 1024  # elements
STEPS = (200, 3000)  # at least, at most
SHOWN = 6  # names in a message


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorSurvey:
    """What the beginning of a file of vectors shows."""

    sign: str
    rows: int  # elements, about
    predicts: str
    settings: Mapping[str, str]  # how a table is read
    surest: bool


def recognise(spec: str, given: Mapping[str, str]) -> Proposal | None:
    """What to train on sets of vectors."""
    kinds = kinds_of(spec)
    if kinds:
        if "sets of vectors" not in kinds:
            return None
        sign = f"the built-in set {spec}"
        return Proposal(preset=PRESET, found="sets of vectors", sign=sign, confidence=Confidence.FORMAT)
    found = survey(Path(spec).expanduser(), given)
    if found is None:
        return None
    steps = min(max(10 * round(EPOCHS * found.rows / BATCH / 10), STEPS[0]), STEPS[1])
    return Proposal(
        preset=PRESET,
        found="sets of vectors",
        sign=found.sign,
        confidence=Confidence.FORMAT if found.surest else Confidence.NAMES,
        settings={
            "train.steps": steps,
            "train.batch_tokens": BATCH,
            "train.schedule.warmup": steps // 10,
            "train.evaluate_every": steps // 5,
            "train.save_every": steps // 5,
        },
    )


def reading(spec: str, given: Mapping[str, str]) -> Reading:
    """The columns of a table, and what is predicted: a class, a number, or a class of each element."""
    if kinds_of(spec):
        return Reading()
    try:
        found = survey(Path(spec).expanduser(), given)
    except DataError:  # training says so, in full
        return Reading()
    if found is None:
        return Reading()
    settings, notes = dict(found.settings), []
    if settings and not given:
        notes.append(
            f"sets from column {settings['data.group']}, targets from column {settings['data.label']} "
            "(--data.group and --data.label choose others)"
        )
    if found.predicts != "class":
        settings["task.predicts"] = found.predicts
        what = "a class of each element" if found.predicts == "elements" else "a number of each set"
        notes.append(f"{what} is predicted (--task.predicts chooses)")
    if found.predicts == "elements":
        settings["model.pool"] = "none"
    return Reading(settings=settings, note="; ".join(notes))


def survey(path: Path, given: Mapping[str, str]) -> VectorSurvey | None:
    """What the beginning of a file, or of the train file in a folder, shows; None for what is not of vectors."""
    if path.is_dir():
        if not any(ending(each) in NPZ for each in listing(path)):
            return _table(path, given)
        path = find_splits_of_vectors(path)["train"]
    return _npz(path) if ending(path) in NPZ else _table(path, given)


def _npz(path: Path) -> VectorSurvey | None:
    arrays = read_headers(path)
    if "x" not in arrays or len(arrays["x"].shape) != 3:
        return None
    x, y = arrays["x"], arrays.get("y")
    predicts = "class"
    if y is not None:
        predicts = "elements" if len(y.shape) == 2 else "number" if y.dtype.kind == "f" else "class"
    sign = f"the array x of {path.name}: {x.shape[0]:,} sets of up to {x.shape[1]:,} vectors of {x.shape[2]} numbers"
    return VectorSurvey(sign=sign, rows=x.shape[0] * x.shape[1], predicts=predicts, settings={}, surest=True)


def _table(path: Path, given: Mapping[str, str]) -> VectorSurvey | None:
    table = survey_table(path)
    if table is None or not table.header:
        return None
    group = given.get("data.group") or find_group(table.columns)
    if group is None or group not in table.columns:
        return None
    label = given.get("data.label") or table.named(name for name in LABELS if name != group.casefold())
    features = [name for name in table.columns if name not in (group, label)]
    ids = table.cells(group)
    numeric = [name for name in features if all(_is_number(cell) for cell in table.cells(name))]
    if label is None or label not in table.columns or len(set(ids)) == len(ids) or numeric != features or not features:
        return None
    sign = (
        f"the column {group} of {table.path.name}, which names sets of rows of numbers ({listed(features, most=SHOWN)})"
    )
    settings = {"data.group": group, "data.label": label}
    predicts = _predicted(table, group, label)
    named = "data.group" in given
    return VectorSurvey(sign=sign, rows=table.count, predicts=predicts, settings=settings, surest=named)


def _predicted(table: TableSurvey, group: str, label: str) -> str:
    """elements if a set has several targets, else number if some target is a fraction, else class."""
    first: dict[str, str] = {}
    cells = list(zip(table.cells(group), table.cells(label), strict=True))
    if any(first.setdefault(name, cell) != cell for name, cell in cells):
        return "elements"
    numbers = all(_is_number(cell) for _, cell in cells)
    return "number" if numbers and any(float(cell) % 1 for _, cell in cells) else "class"


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True
