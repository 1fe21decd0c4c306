"""How fast a machine trains: what the time of a step is measured by."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch

from headway.config import override
from headway.presets import preset
from headway.runs import plan_run, probe
from headway.runs import train as training
from headway.runs.probe import Elapsed, StepTimes
from headway.training import devices
from headway.training.trainer import Trainer


@pytest.fixture
def config(tmp_path):
    book = tmp_path / "book.txt"
    book.write_text("to be or not to be, that is the question.\n" * 60)
    sizes = {"model.width": 16, "model.layers": 1, "model.heads": 2, "train.device": "cpu", "train.steps": 100}
    return override(
        preset("gpt-char").recipe(), {"data.spec": str(book), "data.cache": str(tmp_path / "cache"), **sizes}
    )


def machine(monkeypatch, first: float, whole: float, load: float = 1.0) -> dict[str, float]:
    """Steps that compute `whole` seconds for a whole batch, `first` more the first time, and wait as `load` says."""
    clock = {"wall": 0.0, "cpu": 0.0, "first": first}

    def advance(self: Trainer) -> dict[str, object]:
        computed = whole * getattr(self.task.order, "share", 1.0) + clock["first"]
        clock["first"] = 0.0
        clock["cpu"] += computed
        clock["wall"] += load * computed
        return {}

    monkeypatch.setattr(Trainer, "advance", advance)
    monkeypatch.setattr(probe.time, "perf_counter", lambda: clock["wall"])
    monkeypatch.setattr(probe.time, "process_time", lambda: clock["cpu"])
    return clock


def test_the_first_step_is_not_counted(config, tmp_path, monkeypatch):
    """It allocates; measured on an eighth of a batch and multiplied by eight, 4 s of it were told as 35 s a step."""
    machine(monkeypatch, first=3.0, whole=0.2)
    facts = plan_run(config, tmp_path / "run").facts
    assert facts["time"] == "about 20 s on this machine at 0.2 s a step, and validations"


def test_a_busy_machine_is_told_and_does_not_count(config, tmp_path, monkeypatch):
    machine(monkeypatch, first=0.5, whole=0.4, load=10.0)
    assert plan_run(config, tmp_path / "run").facts["time"] == (
        "about 40 s at 0.4 s a step, by the CPU time of one thread, and validations; the machine is busy: "
        "at its load of now 6 min 40 s at 4 s a step"
    )


def test_the_time_of_a_step_is_never_more_than_was_observed(config, tmp_path, monkeypatch):
    """The whole measurement took less than the step that it told."""
    taken: list[float] = []
    right = StepTimes._step

    def counted(self: StepTimes) -> Elapsed:
        taken.append((found := right(self)).clock)
        return found

    told = []
    monkeypatch.setattr(StepTimes, "_step", counted)
    monkeypatch.setattr(training, "duration", lambda seconds: told.append(seconds) or f"{seconds}")
    plan_run(config, tmp_path / "run")
    assert min(told) <= sum(taken)
    assert len(taken) >= 2 * (1 + probe.LEAST_STEPS)


def test_where_the_load_is_high_one_thread_is_measured(config, tmp_path, monkeypatch):
    """Two threads that wait for each other compute in loops: 18 s of CPU time a step were told, 0.11 s are needed."""
    used: list[int] = []

    def advance(self: Trainer) -> dict[str, object]:
        used.append(torch.get_num_threads())
        return {}

    monkeypatch.setattr(Trainer, "advance", advance)
    monkeypatch.setattr(devices, "cores", lambda: 2)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        for load, threads in ((14.6, 1), (0.5, 2)):
            monkeypatch.setattr(os, "getloadavg", lambda load=load: (load, load, load))
            used.clear()
            plan_run(config, tmp_path / "run")
            assert set(used) == {threads}
            assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_several_threads_compute_more_than_the_clock_shows():
    assert Elapsed(clock=0.5, cpu=0.9).better == 0.5
    assert Elapsed(clock=3.0, cpu=0.9).better == 0.9


def test_one_pause_does_not_count(config, tmp_path, monkeypatch):
    clock, calls = machine(monkeypatch, first=0.1, whole=0.2), [0]
    right = Trainer.advance

    def paused(self: Trainer) -> dict[str, object]:
        calls[0] += 1
        clock["wall"] += 0.9 if calls[0] % 5 == 4 else 0.0
        return right(self)

    monkeypatch.setattr(Trainer, "advance", paused)
    assert "at 0.2 s a step, and validations" in plan_run(config, Path(tmp_path / "run")).facts["time"]
