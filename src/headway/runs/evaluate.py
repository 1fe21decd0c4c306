"""Evaluating a run: the options its task has, and another run to compare with."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headway.errors import DIVERGED, ConfigError, NonFiniteError
from headway.runs.evaluation_notes import notes
from headway.tasks.base import EvaluateRequest, Metric, Pipeline, Progress, Task, article, ignore
from headway.tasks.registry import TASKS

if TYPE_CHECKING:
    from headway.runs.run import Run
    from headway.tasks.report import Report


def evaluate(
    run: Run,
    *,
    data: str | None = None,
    split: str | None = None,
    beam: int | None = None,
    stride: int | None = None,
    lengths: Sequence[int] | None = None,
    metric: Metric | None = None,
    compare: str | Path | Run | None = None,
    columns: Mapping[str, str] | None = None,
    progress: Progress | None = None,
) -> Report:
    """The metrics of a split. Raises ConfigError for an option that the run's task does not have.

    Raises NonFiniteError for a loss that is NaN or infinite: no figure of such a model means anything.
    """
    given = {
        **(columns or {}),
        "beam": beam,
        "stride": stride,
        "lengths": lengths,
        "metric": metric,
        "compare": compare,
    }
    check_options(run.pipeline, [name for name, value in given.items() if value is not None])
    rival = None if compare is None else _rival(run, compare)
    report = run.pipeline.evaluate(
        EvaluateRequest(
            data=data,
            split=split,
            beam=beam,
            stride=stride,
            lengths=None if lengths is None else tuple(lengths),
            metric=metric,
            columns=columns or {},
            progress=progress or ignore,
            rival=None if rival is None else rival.pipeline,
            names=(str(run.folder), "" if rival is None else str(rival.folder)),
        )
    )
    for loss in _losses(report.values):
        if loss is None or not math.isfinite(loss):
            raise NonFiniteError(f"{run.folder}: the loss on split {report.split!r} is NaN or infinite; {DIVERGED}")
    return replace(report, sections=[*report.sections, *notes(report, None if data else run.config.data.spec)])


def _losses(values: Mapping[str, Any]) -> list[float | None]:
    """The losses among the values of a report, None for what is not finite; a length that was refused has none."""
    by_length = zip(values.get("loss_by_length", ()), values.get("refused_by_length", ()), strict=True)
    return [
        *([values["loss"]] if "loss" in values else []),
        *(loss for loss, refused in by_length if refused is None),
    ]


def _rival(run: Run, compare: str | Path | Run) -> Run:
    """The run to compare with, loaded as this one is unless it is loaded already."""
    if not isinstance(compare, str | Path):
        return compare
    return type(run)(Path(compare), device=run.device.type, average=run.average, precision=run.precision)


def check_options(pipeline: Pipeline, names: Sequence[str]) -> None:
    """Raise ConfigError for an option of `evaluate` that this run's task does not have: ignored, it would mislead."""
    for name in names:
        if name not in pipeline.evaluate_options:
            having = [title for each in TASKS if (title := _title_with(each, name))]
            raise ConfigError(f"--{name} is not supported by {article(pipeline.task.title)} ({', '.join(having)} only)")


def _title_with(task: str, option: str) -> str | None:
    """The title of a task whose `evaluate` has an option; None without it, or where a plugin cannot be loaded."""
    with contextlib.suppress(ConfigError):
        found: type[Task] = TASKS[task]
        return found.title if option in found.pipeline_class().evaluate_options else None
    return None
