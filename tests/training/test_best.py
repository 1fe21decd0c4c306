"""The best checkpoint: by the figure that the task names, of equal ones by the lower loss; else by the loss."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest

from headway.tasks.training_task import HIGHEST_ACCURACY, LOWEST_LOSS, Criterion, Validated
from headway.training.best import BestCheckpoint, best_in
from headway.training.checkpoints import FACTS, Checkpoints
from headway.training.log import LOG, log_line, read_log
from tests.training.small import TRAIN, CountingTask, state_hash, trainer

# Loss and accuracy of a text classifier whose loss rises by over-confidence while its accuracy goes on rising.
VALIDATIONS = [(0.650, 0.611), (0.706, 0.717), (0.840, 0.700), (0.848, 0.733), (0.9, 0.733), (0.84, 0.733)]
CONFIG = replace(TRAIN, steps=12, evaluate_every=2, save_every=2, keep=1)


class Overconfident(CountingTask):
    """A task whose validations are given, by the step."""

    criterion: Criterion = HIGHEST_ACCURACY

    def __init__(self, found=VALIDATIONS) -> None:
        super().__init__()
        self.found, self.owner = found, None

    def validate(self, model, device):
        loss, accuracy = self.found[self.owner.step // 2 - 1]
        return Validated(loss, {"val_accuracy": accuracy})


def made_with(folder, task, config=CONFIG):
    made = trainer(folder, config, task)
    task.owner = made
    return made


@pytest.mark.parametrize(("steps", "step"), [(2, 2), (6, 4), (8, 8), (10, 8), (12, 12)])
def test_the_best_has_the_highest_accuracy_and_of_equal_ones_the_lower_loss(tmp_path, steps, step):
    made = made_with(tmp_path, Overconfident(), replace(CONFIG, steps=steps))
    made.train()
    loss, accuracy = VALIDATIONS[step // 2 - 1]
    assert Checkpoints(tmp_path).best() == BestCheckpoint(step, loss, HIGHEST_ACCURACY, accuracy)
    assert json.loads((tmp_path / "best.json").read_text()) == {"step": step, "loss": loss, "val_accuracy": accuracy}
    assert Checkpoints(tmp_path).weights()[1] == [step]
    assert step in Checkpoints(tmp_path).steps()


def test_patience_goes_by_the_same_figure(tmp_path):
    found = [(0.5, 0.5), (0.6, 0.6), (0.7, 0.7), (0.6, 0.6), (0.5, 0.6), (0.4, 0.6)]
    made = made_with(tmp_path, Overconfident(found), replace(CONFIG, patience=2))
    made.train()
    assert (made.step, made.best.step, made.stale) == (10, 6, 2)


def test_a_task_that_names_no_figure_goes_by_the_loss_and_writes_what_older_versions_wrote(tmp_path):
    task = CountingTask()
    found = iter([2.0, 1.5, 1.7])
    task.validate = lambda model, device: next(found)
    made = trainer(tmp_path, replace(CONFIG, steps=6), task)
    made.train()
    assert json.loads((tmp_path / "best.json").read_text()) == {"step": 4, "loss": 1.5}
    facts = json.loads((Checkpoints(tmp_path).path(6) / FACTS).read_text())
    assert [name for name in facts if "best" in name] == ["best", "best_step"]


@pytest.mark.parametrize("accuracy", [math.nan, math.inf])
def test_a_figure_that_is_not_finite_is_never_the_best(tmp_path, accuracy):
    made = made_with(tmp_path, Overconfident([(0.5, 0.5), (0.4, accuracy)]), replace(CONFIG, steps=4))
    made.train()
    assert made.best.step == 2


@pytest.mark.parametrize("stop", [2, 4, 6, 10])
def test_a_resumed_run_is_the_uninterrupted_one(tmp_path, stop):
    straight = made_with(tmp_path / "a", Overconfident())
    straight.train()
    first = made_with(tmp_path / "b", Overconfident(), replace(CONFIG, steps=stop))
    first.config = replace(CONFIG, patience=0)
    while first.step < stop:
        first.advance()
        if first.step % CONFIG.evaluate_every == 0:
            first._evaluate()
    first.save()
    again = made_with(tmp_path / "b", Overconfident())
    assert again.resume()
    assert again.best == first.best
    again.train()
    assert (state_hash(again), again.best) == (state_hash(straight), straight.best)


@pytest.mark.parametrize(("logged", "best"), [(True, 4), (False, 6)])
def test_a_run_of_an_older_version_goes_on_from_the_accuracy_in_its_log(tmp_path, logged, best):
    older = made_with(tmp_path, Overconfident([(0.8, 0.5), (0.7, 0.8), (0.9, 0.7)]), replace(CONFIG, steps=4))
    older.best = BestCheckpoint()  # by loss, as before
    older.train()
    assert Checkpoints(tmp_path).best() == BestCheckpoint(4, 0.7)
    if not logged:
        lines = [log_line(entry, "") + "\n" for entry in read_log(tmp_path / LOG) if "val_loss" not in entry]
        (tmp_path / LOG).write_text("".join(lines))
    again = made_with(tmp_path, Overconfident([(0.8, 0.5), (0.7, 0.8), (0.9, 0.7)]), replace(CONFIG, steps=6))
    assert again.resume()
    assert (again.best.step, again.best.value) == (4, 0.8 if logged else None)
    again.train()
    assert again.best.step == best


@pytest.mark.parametrize("change", [{"best_by": 3}, {"best_value": "high"}, {"best_is_higher": None}])
def test_facts_of_another_form_are_read_as_those_of_older_versions(change):
    facts = {**BestCheckpoint(3, 0.5, HIGHEST_ACCURACY, 0.9).to_json(), **change}
    assert best_in(facts) == BestCheckpoint(3, 0.5)


def test_criteria_are_named_for_people():
    assert HIGHEST_ACCURACY.described == "the highest validation accuracy"
    assert Criterion("val_micro_f1", higher=True).title == "micro F1"
    assert LOWEST_LOSS.described == "the lowest validation loss"
    assert BestCheckpoint(3, 0.5, HIGHEST_ACCURACY, 0.9).described == "validation accuracy 0.9000, loss 0.5000"
