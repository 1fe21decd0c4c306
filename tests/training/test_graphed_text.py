"""Steps on texts as a CUDA graph takes them equal those taken one by one: eagerly on a CPU, replayed on a GPU."""

from __future__ import annotations

import pytest
import torch

from headway.bench import train_bert, train_gpt
from headway.tasks.language_modelling.config import ScheduledSampling
from headway.tasks.training_task import IGNORED, chosen_loss
from headway.training import trainer as training
from headway.training.trainer import Trainer

GPT = train_gpt.TrainGptSizes(rows=3, context=16, width=32, layers=1, heads=2)
BERT = train_bert.TrainBertSizes(rows=6, length=24, width=32, layers=1, heads=2)
MAKERS = {"language": (train_gpt.make_trainer, GPT), "masked": (train_bert.make_trainer, BERT)}
cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")


@pytest.fixture
def make(monkeypatch):
    """A function that builds a trainer of a kind; graphed as on a GPU, but nothing is compiled."""

    def build(kind: str, folder, device: str, *, graphed: bool) -> Trainer:
        maker, sizes = MAKERS[kind]
        folder.mkdir()
        with monkeypatch.context() as patch:
            patch.setattr(training, "compile_features", lambda *given, **options: None)
            if graphed and device == "cpu":
                patch.setattr(training, "unsupported_reason", lambda *given: None)
            return maker(folder, sizes, device=device, compile=graphed, precision="fp32", accumulate=2)

    return build


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=cuda)])
@pytest.mark.parametrize("kind", MAKERS)
def test_graphed_steps_equal_eager_ones(kind, tmp_path, device, make):
    plain, graphed = (make(kind, tmp_path / str(how), device, graphed=how) for how in (False, True))
    assert graphed.graphed is not None
    entries = []
    while graphed.step < 12:
        entries += graphed.next_steps()
    eager = [plain.advance() for _ in entries]
    assert [entry["tokens"] for entry in entries] == [entry["tokens"] for entry in eager]
    assert [entry["loss"] for entry in entries] == pytest.approx([entry["loss"] for entry in eager], rel=1e-4)
    assert plain.cursor == graphed.cursor
    for one, other in zip(plain.model.parameters(), graphed.model.parameters(), strict=True):
        torch.testing.assert_close(other, one, atol=2e-4, rtol=0)


def test_hidden_tokens_are_counted_batch_by_batch(tmp_path, make):
    """Their number varies, and is never above what the graph has room for."""
    task = make("masked", tmp_path / "run", "cpu", graphed=False).task
    counts = [task.batch(indices).count for indices, _ in (next(task.order.after(c)) for c in cursors(task, 40))]
    assert len(set(counts)) > 1
    assert max(counts) <= task.most_targets


def cursors(task, count: int) -> list:
    found, order = [], task.order.after(training.Cursor())
    for _ in range(count):
        found.append(next(order)[1])
    return found


def test_a_count_on_the_device_gives_the_same_loss():
    x, weight = torch.randn(2, 5, 4), torch.randn(7, 4)
    targets = torch.randint(0, 7, (2, 5))
    targets[0, 1:4] = targets[1, 0] = IGNORED
    want = chosen_loss(x, (weight, None), targets, 6, 0.1)
    for most in (6, 8, 10):
        torch.testing.assert_close(chosen_loss(x, (weight, None), targets, torch.tensor(6), 0.1, most=most), want)


def test_a_language_task_whose_steps_differ_is_not_recorded(tmp_path, make):
    trainer = make("language", tmp_path / "run", "cpu", graphed=False)
    task = trainer.task
    assert task.fixed_shapes
    assert task.order.full
    task.config = type(task.config)(context=task.config.context, scheduled=ScheduledSampling())
    assert not task.fixed_shapes


def test_batches_made_ahead_are_those_of_the_order(tmp_path, make):
    """However many are made ahead, a checkpoint says where the steps taken have ended."""
    one, other = (make("language", tmp_path / str(n), "cpu", graphed=False) for n in range(2))
    other._make_batches(5)
    assert [one.advance()["loss"] for _ in range(7)] == [other.advance()["loss"] for _ in range(7)]
    assert one.cursor == other.cursor


def test_no_more_steps_are_taken_at_once_than_there_are_batches_for(tmp_path, make):
    """A GPU does not wait for batches; there are more of them each time, until there are as many as wanted."""
    made = make("language", tmp_path / "run", "cpu", graphed=True)
    made.graphed.steps_at_once, taken = 3, []
    made.graphed.took = lambda seconds: setattr(made.graphed, "steps_at_once", 10)
    for _ in range(4):
        there = len(made.ready)
        taken.append(len(made.next_steps()))
        assert taken[-1] <= (there or 3)
    assert taken == [3, 3, 6, 10]
