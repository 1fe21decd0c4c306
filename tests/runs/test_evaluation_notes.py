"""Notes on an evaluation: a last checkpoint that differs by much, and a split that chose the checkpoint."""

from __future__ import annotations

import pytest

from headway.runs.evaluation_notes import notes
from headway.tasks.report import Report
from headway.tasks.translation.pipeline import _length_advice


def told(split="test", data=None, **values):
    return [note.text for note in notes(Report(split=split, values=values, sections=[]), data)]


@pytest.mark.parametrize(
    ("last", "expected"),
    [
        (0.744, "the last checkpoint, step 1,262, is much better on test: accuracy 0.744, this one 0.591"),
        (0.4, "the last checkpoint, step 1,262, is much worse on test: accuracy 0.4, this one 0.591"),
        (0.60, None),
    ],
)
def test_a_last_checkpoint_outside_the_interval_is_told(last, expected):
    found = told(accuracy=0.591, accuracy_low=0.55, accuracy_high=0.63, last_accuracy=last, last_step=1262)
    assert [text.startswith(expected) for text in found] == ([] if expected is None else [True])


def test_f1_has_no_interval():
    assert told(micro_f1=0.5, last_micro_f1=0.52, last_step=3) == []
    assert told(micro_f1=0.5, last_micro_f1=0.56, last_step=3)[0].endswith("micro F1 0.56, this one 0.5")


@pytest.mark.parametrize("split", ["val", "test"])
def test_no_checkpoint_is_chosen_by_its_figure_on_test(split):
    (found,) = told(split, micro_f1=0.5, last_micro_f1=0.56, last_step=3)
    assert ("--average 1 uses it" in found) == (split == "val")


def test_val_chose_the_checkpoint(tmp_path):
    (tmp_path / "train.csv").touch()
    assert told("test", str(tmp_path)) == told("val") == []
    (found,) = told("val", str(tmp_path))
    assert found.startswith("val also chose the checkpoint: an independent figure needs a test split: ")
    assert f": {tmp_path / 'test.csv'}, or other data by --data" in found
    assert "a folder with train.csv and test.csv" in told("val", str(tmp_path / "train.csv"))[0]
    assert told("val", "shapes") == [
        "val also chose the checkpoint: an independent figure needs a test split, or other data by --data"
    ]


@pytest.mark.parametrize(
    ("ratio", "advice"),
    [
        (1.599, "The outputs are 60% longer than the references: train longer, or lower the length penalty"),
        (0.5, "The outputs are 50% shorter than the references: train longer, or raise the length penalty"),
        (0.8, None),
        (1.25, None),
    ],
)
def test_translations_of_unusual_length_get_advice(ratio, advice):
    found = _length_advice(ratio)
    assert [text.startswith(advice) for text in found] == ([] if advice is None else [True])
