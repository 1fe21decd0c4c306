"""What can be done with a data set: each task says whether it recognises it, and what it would train on it.

A task looks at names and at the beginning of files (`Task.recognise`); nothing here knows the tasks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path

from headway.data.datasets import kinds_of
from headway.data.files import contents
from headway.data.other_files import advice
from headway.data.table_columns import UnclearLabelError
from headway.errors import ConfigError, DataError, shown
from headway.tasks.registry import TASKS

FORMS = "`headway help train` names the forms of data (all: docs/training.md, “Which data forms are recognised”)"
SHOWN = 8  # names of what a folder holds
LANGUAGES = {"data.source": "--source", "data.target": "--target"}  # options of parallel text


class Confidence(IntEnum):
    """How sure a task is that it can read the data; the surest of several tasks is chosen."""

    POSSIBLE = 1  # it can be read so: any text is a text to model
    CONTENT = 2  # by what the first rows or files look like
    NAMES = 3  # by the names of columns
    FORMAT = 4  # by a form that has no other meaning: aligned files, class folders, annotations


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """What a task proposes for data that it recognises."""

    preset: str
    found: str  # what the data is: "texts with classes"
    sign: str  # what shows it: "the columns review and sentiment"
    confidence: Confidence
    settings: Mapping[str, object] = field(default_factory=dict)  # config keys that fit the preset to the data
    note: str = ""  # for the user: what else the data may be
    pairs: bool = False  # of source and target, which `data.source` and `data.target` name


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """How data is to be read, as its files tell: config keys, and what to tell the user about them."""

    settings: Mapping[str, str] = field(default_factory=dict)
    note: str = ""


def recognise(spec: str, given: Mapping[str, str] | None = None) -> Proposal:
    """What to train on a data set by name or path: the proposal of the task that is surest.

    `given` are settings that say how the data is read, such as `data.source`.

    Raises DataError for what no task recognises, with what is there, or for what is unclear, with what to name.
    """
    kinds_of(spec)  # raises for what is neither a name nor a path
    proposals: list[Proposal] = []
    unclear: list[DataError] = []
    for name in TASKS:
        try:
            found = TASKS[name].recognise(spec, given or {})  # type: ignore[attr-defined]  # the registry holds tasks
        except ConfigError:  # a plugin that cannot be loaded
            continue
        except DataError as error:
            unclear.append(error)
        else:
            proposals += [] if found is None else [found]
    if not proposals:
        raise unclear[0] if unclear else _unrecognised(Path(spec).expanduser())
    surest = max(proposals, key=lambda each: each.confidence)
    labels = [error for error in unclear if isinstance(error, UnclearLabelError)]
    if surest.confidence == Confidence.POSSIBLE and labels:  # texts with a class, rather than any text
        raise labels[0]
    useless = [f"{option} {shown(given[key])}" for key, option in LANGUAGES.items() if given and key in given]
    if useless and not surest.pairs:
        raise DataError(f"{' and '.join(useless)}: {spec} is {surest.found}, which has no source and target")
    return surest


def _unrecognised(path: Path) -> DataError:
    what = f"{path} is a file" if path.is_file() else f"{path} holds {contents(path, most=SHOWN)}"
    step = advice(path)
    return DataError(
        f"{what}: not recognised as data to train on; {step}{'; ' if step else ''}{FORMS}, and PRESET before --data "
        "says what to train"
    )
