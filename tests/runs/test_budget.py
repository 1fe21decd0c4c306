"""`--budget`: a run that fits a time, and gives the same weights again without one."""

from __future__ import annotations

import re
import time
from dataclasses import replace
from pathlib import Path

import pytest

from headway.cli import main
from headway.config import override, plain
from headway.counts import counted
from headway.errors import ConfigError
from headway.presets import preset
from headway.reliability.runs import TINY
from headway.runs import budget as budgets
from headway.runs import plan_run, read_config, train_run
from headway.runs.budget import FittedRun, SlowStartWatch, TooSlowError, fit_budget
from headway.tasks.base import Prepared
from headway.training.callbacks import SilentCallback
from headway.training.log import LOG, read_log
from headway.training.trainer import Trainer
from tests.cli.test_train_told import weights, words


class Clock:
    """Step times by a formula instead of a clock: seconds a parameter and share of a batch."""

    rate = 1e-6
    validated: float | None = 1.0
    busy = 1.0

    def __init__(self, config, task, folder, patience) -> None:
        self.parameters = budgets.parameter_count(config)

    def seconds(self, share: float) -> float:
        return self.rate * self.parameters * share

    def validation(self, most: float) -> float | None:
        return self.validated


class Notes(SilentCallback):
    """Keeps what is told, and counts steps."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.steps = 0

    def note(self, text: str) -> None:
        self.notes.append(text)

    def step(self, entry) -> None:
        self.steps += 1


class FakeTraining:
    class order:  # noqa: N801
        @staticmethod
        def batches() -> int:
            return 50


@pytest.fixture
def clock(monkeypatch):
    monkeypatch.setattr(budgets, "StepTimes", Clock)
    monkeypatch.setattr(Clock, "rate", 1e-6)
    monkeypatch.setattr(Clock, "validated", 1.0)
    return Clock


def fitted(name: str, seconds: float, fixed: tuple[str, ...] = (), changes: dict | None = None):
    config = override(preset(name).recipe(), changes or {})
    return config, fit_budget(config, Prepared(training=FakeTraining), seconds, fixed=fixed)


@pytest.mark.parametrize(
    "name", ["transformer-tiny", "gpt-char", "convnet", "sl-vit-tiny", "longformer-needle", "gpt2"]
)
@pytest.mark.parametrize("seconds", [60, 600, 7200])
def test_the_steps_and_validations_fill_the_time(clock, name, seconds):
    recipe, found = fitted(name, seconds)
    train = found.config.train
    step = Clock.rate * budgets.parameter_count(found.config) * train.batch_tokens / recipe.train.batch_tokens
    spent = train.steps * train.accumulate * step + train.steps // train.evaluate_every * 1.0
    assert spent <= seconds
    shorter = train.steps < 1.01 * max(recipe.train.steps * 8, 10 * 50 * 8)
    assert spent >= 0.75 * seconds or shorter
    assert train.evaluate_every <= train.steps
    assert train.schedule.warmup <= max(train.steps // 4, recipe.train.schedule.warmup)
    assert found.facts["budget"].startswith(f"{budgets.duration(seconds)}: {train.steps:,} steps in about ")


def test_less_time_gives_a_smaller_batch_then_a_smaller_model(clock):
    recipe, much = fitted("transformer-tiny", 80_000)
    assert much.config.model == recipe.model
    assert much.config.train.batch_tokens == recipe.train.batch_tokens
    assert much.config.train.learning_rate == recipe.train.learning_rate
    _, less = fitted("transformer-tiny", 3000)
    assert less.config.model == recipe.model
    assert less.config.train.batch_tokens in (4096, 2048)
    share = less.config.train.batch_tokens / 8192
    assert less.config.train.learning_rate == pytest.approx(recipe.train.learning_rate * share**0.5)
    _, little = fitted("transformer-tiny", 300)
    assert little.config.model.width < recipe.model.width or little.config.model.encoder_layers < 4
    assert little.config.model.vocab == recipe.model.vocab
    assert "too few" in little.facts["budget"]
    assert "model.encoder_layers 4 -> 2" in little.facts["fitted"]


def test_what_the_user_sets_stays(clock):
    changes = {"model.encoder_layers": 4, "model.width": 128, "train.batch_tokens": 8192, "train.learning_rate": 0.001}
    _, found = fitted("transformer-tiny", 60, tuple(changes), changes)
    assert (found.config.model.encoder_layers, found.config.model.width) == (4, 128)
    assert found.config.train.batch_tokens == 8192
    assert found.config.train.learning_rate == 0.001
    _, other = fitted("transformer-tiny", 60, ("model.dropout",), {"model.dropout": 0.2})
    assert other.config.model.dropout == 0.2
    assert other.config.model.width < 128


def test_ample_time_is_not_filled_with_more_than_the_recipe_or_ten_epochs(clock, monkeypatch):
    monkeypatch.setattr(Clock, "rate", 1e-12)
    recipe, found = fitted("gpt-char", 7200)
    assert found.config.train.steps == recipe.train.steps
    assert "end before the time" in found.facts["budget"]


def test_a_validation_that_takes_most_of_the_time_is_refused(clock, monkeypatch):
    monkeypatch.setattr(Clock, "validated", None)
    with pytest.raises(ConfigError, match=r"one validation takes more than 20 s .* allow more time"):
        fitted("gpt-char", 60)


def test_a_world_model_has_no_budget():
    with pytest.raises(ConfigError, match=r"--budget is not supported for a world model: set train.steps"):
        fitted("world-cartpole", 60)


@pytest.mark.slow
def test_a_budget_is_met(tmp_path):
    """The tolerance that docs/training.md states, on a machine whose load stays the same."""
    book = tmp_path / "book.txt"
    book.write_text("to be or not to be, that is the question.\n" * 20_000)
    sizes = {"model.width": 32, "model.layers": 1, "model.heads": 2, "model.dropout": 0.1, "train.device": "cpu"}
    changes = {"data.spec": str(book), "data.cache": str(tmp_path / "cache"), **sizes}
    config = override(preset("gpt-char").recipe(), changes)
    config = replace(config, train=replace(config.train, steps=1_000_000))  # so that the time ends it
    started = time.perf_counter()
    train_run(config, tmp_path / "run", budget=20.0, fixed=tuple(sizes))
    assert time.perf_counter() - started == pytest.approx(20.0, rel=0.25)
    assert plain(read_config(tmp_path / "run").model) == {**plain(config.model), "vocab": 16}


def test_a_budget_of_a_run_that_is_resumed_is_told_to_be_ignored(tmp_path, capsys):
    book = tmp_path / "book.txt"
    book.write_text("to be or not to be, that is the question.\n" * 60)
    assert main(words(book, tmp_path / "run", "--train.steps", "2")) == 0
    assert main(["train", "--out", str(tmp_path / "run"), "--resume", "--budget", "3s"]) == 0
    assert (
        "--budget 3 s is for a new run and changes nothing here: the run keeps its 2 steps" in capsys.readouterr().err
    )
    assert read_config(tmp_path / "run").train.steps == 2


def test_the_same_command_resumes_a_run_with_a_budget(tmp_path, capsys):
    book = tmp_path / "book.txt"
    book.write_text("to be or not to be, that is the question.\n" * 60)
    command = words(book, tmp_path / "run", "--budget", "2s")
    assert main(command) == 0
    assert "budget " in capsys.readouterr().err
    begun, first = read_config(tmp_path / "run"), weights(tmp_path / "run")
    assert main([*command, "--resume"]) == 0
    assert read_config(tmp_path / "run") == begun
    assert weights(tmp_path / "run") == first
    again = tmp_path / "again"
    assert main(words(book, again, "--config", str(tmp_path / "run" / "config.yaml"))) == 0
    assert weights(again) == first


@pytest.mark.parametrize("task", [name for name, tiny in TINY.items() if tiny.trained])
def test_every_task_tells_its_data_without_writing(task, tmp_path):
    tiny = TINY[task]
    if not tiny.available:
        pytest.skip(f"{tiny.needs} is not installed")
    with tiny.short():
        plan = plan_run(tiny.config(tmp_path / "cache"), tmp_path / "run")
    assert list(tmp_path.iterdir()) == []
    rows = list(plan.facts)
    assert rows[0] == "data"
    assert rows.index("model") >= 2, "the task says nothing of its data"
    assert plan.facts["training"].startswith(f"{tiny.steps} steps of up to ")


@pytest.mark.parametrize("task", ["language", "translation", "classification", "text-classification"])
def test_a_budget_fits_every_kind_of_data(task, tmp_path):
    tiny = TINY[task]
    with tiny.short():
        plan = plan_run(tiny.config(tmp_path / "cache"), tmp_path / "run", budget=10.0)
    assert plan.config.train.steps >= 1
    assert plan.facts["budget"].startswith("10 s: ")
    assert Path(plan.config.data.cache) == tmp_path / "cache"


def test_a_machine_that_is_slower_than_measured_gets_fewer_steps_once(tmp_path, monkeypatch):
    """Steps are measured as if the machine were idle and are then much slower: the run still keeps to its time."""

    class Quiet(Clock):
        rate = 1e-9

    monkeypatch.setattr(budgets, "StepTimes", Quiet)
    monkeypatch.setattr(Quiet, "validated", 0.01)
    monkeypatch.setattr(budgets, "TRIAL_STEPS", 2)
    slowed, right = [0.0], Trainer.advance

    def slow(self):
        time.sleep(0.02)
        slowed[0] += 1
        return right(self)

    monkeypatch.setattr(Trainer, "advance", slow)
    watcher = Notes()
    book = tmp_path / "book.txt"
    book.write_text("to be or not to be, that is the question.\n" * 60)
    sizes = {"model.width": 16, "model.layers": 1, "model.heads": 2, "train.batch_tokens": 256}
    sizes |= {"train.save_every": 5, "train.keep": 1000}  # some are saved before the run begins again
    changes = {"data.spec": str(book), "data.cache": str(tmp_path / "cache"), "train.device": "cpu", **sizes}
    config = override(preset("gpt-char").recipe(), changes)
    config = replace(config, train=replace(config.train, steps=1_000_000))
    started = time.perf_counter()
    train_run(config, tmp_path / "run", watcher, budget=4.0, fixed=tuple(sizes))
    took = time.perf_counter() - started
    again = [note for note in watcher.notes if "starting again" in note]
    assert len(again) == 1
    assert not [note for note in watcher.notes if "damaged" in note]
    assert not (tmp_path / "run" / "log-damaged.jsonl").exists()
    assert re.search(
        r"a step takes 0\.\d+ s, not [\d.e-]+ s as measured: starting again, to keep to 4 s, with", again[0]
    )
    kept = read_config(tmp_path / "run")
    assert kept.train.steps < slowed[0] < 4.0 / 0.02  # the first steps were thrown away
    entries = [entry for entry in read_log(tmp_path / "run" / LOG) if "loss" in entry]
    assert [entry["step"] for entry in entries] == list(range(1, kept.train.steps + 1))
    assert took < 8
    monkeypatch.setattr(Trainer, "advance", right)
    train_run(kept, tmp_path / "plain")
    assert weights(tmp_path / "plain") == weights(tmp_path / "run")  # the config alone gives the same run
    first, second = (tmp_path / each / "checkpoints/step-00000005/model.safetensors" for each in ("run", "plain"))
    assert first.read_bytes() == second.read_bytes()  # none is left of the first attempt


def test_the_first_steps_decide_and_a_run_that_ends_in_time_goes_on(tmp_path):
    """A hiccup later, or a slow start of a run that ends early by its recipe, changes nothing."""
    watcher, config = Notes(), override(preset("gpt-char").recipe(), {"train.steps": 10})
    fit = FittedRun(
        config=config, facts={}, step=0.001, aside=0.0, replanned=lambda step, gone: pytest.fail("replanned")
    )
    watch = SlowStartWatch(watcher, fit, seconds=100.0, started=time.perf_counter())
    for step in range(1, 11):
        time.sleep(0.002)
        watch.step({"step": step})
    assert watcher.steps == 10
    late = SlowStartWatch(watcher, fit, seconds=0.01, started=time.perf_counter())
    late.evaluated({"step": 0}, [])
    for step in range(1, 11):
        time.sleep(0.002)
        late.step({"step": step})
    slow = SlowStartWatch(watcher, fit, seconds=0.01, started=time.perf_counter())
    slow.step({"step": 1})
    slow.step({"step": 2})
    slow.step({"step": 3})
    time.sleep(0.02)
    with pytest.raises(TooSlowError):  # the same without an evaluation
        slow.step({"step": 4})


def test_a_run_that_is_too_short_ends_with_a_warning_of_its_own(clock, monkeypatch):
    monkeypatch.setattr(Clock, "rate", 1e-3)
    _, found = fitted("gpt-char", 30)
    steps = found.config.train.steps
    assert steps < budgets.LEAST_STEPS
    (warning,) = found.afterwards(30, 30)
    assert warning.startswith(f"warning: only {counted(steps, 'step')} of up to ")
    assert "hardly learns in fewer than 100; allow about " in warning
    late, _ = found.afterwards(30, 60)
    assert late.startswith("the run took 60 s, its budget was 30 s: ")
    monkeypatch.setattr(Clock, "rate", 1e-9)
    assert not list(fitted("gpt-char", 30)[1].afterwards(30, 30))


def test_a_busy_machine_changes_the_steps_but_not_the_model(clock, monkeypatch):
    """A noisy minute at the start made a model eight times smaller."""
    _, idle = fitted("transformer-tiny", 3000)
    monkeypatch.setattr(Clock, "busy", 3.0)
    _, busy = fitted("transformer-tiny", 3000)
    assert busy.config.model == idle.config.model
    assert busy.config.train.batch_tokens == idle.config.train.batch_tokens
    assert busy.config.train.steps == pytest.approx(idle.config.train.steps / 3, rel=0.02)
    assert "the machine is busy" in busy.facts["budget"]
    assert "busy" not in idle.facts["budget"]


def test_a_few_slow_steps_do_not_start_a_run_again(monkeypatch):
    """By the mean of all first steps, one pause of another process's making cut runs to a third."""
    now = [0.0]
    monkeypatch.setattr(budgets.time, "perf_counter", lambda: now[0])
    config = override(preset("gpt-char").recipe(), {"train.steps": 1000})
    fit = FittedRun(config=config, facts={}, step=0.09, aside=0.0, replanned=lambda step, gone: pytest.fail("again"))
    watch = SlowStartWatch(Notes(), fit, seconds=100.0, started=0.0)
    for step in range(1, 201):
        now[0] += 5.0 if step in (3, 7) else 0.09
        watch.step({"step": step})
    assert watch.decided
    slow = SlowStartWatch(Notes(), fit, seconds=100.0, started=now[0])

    def steps() -> None:
        for step in range(1, 201):
            now[0] += 0.2
            slow.step({"step": step})

    with pytest.raises(TooSlowError) as caught:
        steps()
    assert caught.value.step == pytest.approx(0.2)
    assert len(slow.taken) * 0.2 >= 14.9, "decided by less than 15 % of the budget"
