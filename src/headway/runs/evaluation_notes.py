"""What a reader of an evaluation should know about its checkpoint and its split."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from headway.counts import figure_name
from headway.tasks.report import Note, Report

MUCH = 0.05  # a difference of F1, which has no interval
JUDGED = ("accuracy", "micro_f1")  # figures that reports also have of the last checkpoint


def notes(report: Report, own_data: str | None) -> list[Note]:
    """Notes on a report; `own_data` is what the run was trained on, None for an evaluation of other data."""
    texts = list(_last_checkpoint(report))
    if own_data and report.split == "val":
        texts.append(
            "val also chose the checkpoint: an independent figure needs a test split"
            f"{_test_file(Path(own_data))}, or other data by --data"
        )
    return [Note(text) for text in texts]


def _last_checkpoint(report: Report) -> Iterator[str]:
    """That the last checkpoint is much better or worse than the one that was evaluated.

    Only of val is the other one recommended: a checkpoint chosen by its figure on test would leave no independent one.
    """
    values = report.values
    for name in JUDGED:
        own, last = values.get(name), values.get(f"last_{name}")
        if own is None or last is None:
            continue
        low, high = values.get(f"{name}_low", own - MUCH), values.get(f"{name}_high", own + MUCH)
        if not low <= last <= high:
            which = "better" if last > own else "worse"
            yield (
                f"the last checkpoint, step {values['last_step']:,}, is much {which} on {report.split}: "
                f"{figure_name(name)} {last:.4g}, this one {own:.4g}"
                + ("; --average 1 uses it" if last > own and report.split == "val" else "")
            )


def _test_file(data: Path) -> str:
    """Where a test split would be, for data in files of one ending: ": PATH/test.csv"."""
    if data.is_file():
        return f": a folder with train{''.join(data.suffixes[-1:])} and test{''.join(data.suffixes[-1:])}"
    trained = [file for file in (data.glob("train*") if data.is_dir() else ()) if file.is_file()]
    if len(trained) == 1:
        return f": {data / trained[0].name.replace('train', 'test', 1)}"
    return ""
