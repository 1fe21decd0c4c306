"""A resumed run is the uninterrupted one, to the bit."""

from __future__ import annotations

import os
import random
import signal
import time
from dataclasses import replace

import pytest
import torch

from headway.errors import AdviceWarning
from headway.nn.dropout import Dropout
from headway.training.config import TrainConfig
from headway.training.optimisers import Adam, AdamW, Muon, Sgd
from headway.training.signals import Interrupted
from tests.training.small import TRAIN, CountingTask, losses, state_hash, trainer


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    torch.set_num_threads(1)  # as those that are killed: two threads add in another order
    folder = tmp_path_factory.mktemp("straight")
    made = trainer(folder)
    made.train()
    return state_hash(made), losses(folder)


@pytest.mark.parametrize("stop", range(1, 12))
@pytest.mark.parametrize("optimiser", [Sgd(momentum=0.9), Adam(), AdamW(), Muon()], ids=lambda o: type(o).__name__)
def test_stopping_anywhere_and_resuming_is_the_uninterrupted_run(tmp_path, stop, optimiser):
    config = replace(TRAIN, optimiser=optimiser)
    straight = trainer(tmp_path / "a", config)
    straight.train()
    expected = state_hash(straight)
    first = trainer(tmp_path / "b", replace(config, save_every=stop))
    for _ in range(stop):
        first.advance()
        if first.step % config.evaluate_every == 0:
            first._evaluate()
    first.save()
    torch.rand(7)  # what happens between two sittings must not matter
    again = trainer(tmp_path / "b", config)
    assert again.resume()
    assert again.step == stop
    again.train()
    assert state_hash(again) == expected


def test_every_block_is_used_once_an_epoch_also_across_a_resume(tmp_path):
    task = CountingTask()
    made = trainer(tmp_path, replace(TRAIN, steps=30), task)
    made.train()
    straight = task.handed
    first, second = CountingTask(), CountingTask()
    config = replace(TRAIN, steps=30, save_every=7)
    one = trainer(tmp_path / "r", config, first)
    for _ in range(7):
        one.advance()
    one.save()
    two = trainer(tmp_path / "r", config, second)
    two.resume()
    two.train()
    assert first.handed + second.handed == straight
    per_epoch = len(task.order.epoch(0))
    starts = [start for batch in straight[:per_epoch] for start in batch]
    assert len(starts) == len(set(starts))


def test_micro_batches_equal_one_batch(tmp_path):
    config = TrainConfig(steps=4, batch_tokens=32, accumulate=1, learning_rate=0.1, optimiser=Sgd(), device="cpu")
    whole = trainer(tmp_path / "whole", config)
    parts = trainer(tmp_path / "parts", replace(config, batch_tokens=8, accumulate=4))
    whole.model.eval()  # dropout draws differently for other shapes; the sums are what is compared
    parts.model.eval()
    whole.model.train = parts.model.train = lambda mode=True: whole.model  # type: ignore[method-assign]
    for _ in range(4):
        big, small = whole.advance(), parts.advance()
        assert big["tokens"] == small["tokens"]
        assert big["loss"] == pytest.approx(small["loss"], abs=1e-6)
    for a, b in zip(whole.model.parameters(), parts.model.parameters(), strict=True):
        torch.testing.assert_close(a, b, atol=1e-6, rtol=0)


def test_two_runs_with_one_seed_are_equal_files(tmp_path):
    for name in ("a", "b"):
        trainer(tmp_path / name).train()
    files = sorted(path.relative_to(tmp_path / "a") for path in (tmp_path / "a").rglob("*.safetensors"))
    assert files
    for path in files:
        assert (tmp_path / "a" / path).read_bytes() == (tmp_path / "b" / path).read_bytes()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_saves_at_the_next_step_and_ends_with_its_code(tmp_path, number, uninterrupted):
    made = trainer(tmp_path)
    plain = made.advance

    def advance():
        if made.step == 4:
            os.kill(os.getpid(), number)
        return plain()

    made.advance = advance
    with pytest.raises(Interrupted, match="saved at step 5") as caught:
        made.train()
    assert caught.value.exit_code == 128 + number
    again = trainer(tmp_path)
    assert again.resume()
    assert again.step == 5
    again.train()
    assert (state_hash(again), losses(tmp_path)) == uninterrupted


def kill_until_done(folder, kills: int, seed: int) -> tuple[int, str, float]:
    """Fork a trainer, kill it with SIGKILL at random moments until it has survived to the end."""
    chance = random.Random(seed)
    killed = 0
    while True:
        child = os.fork()
        if not child:
            code = 1
            try:
                torch.set_num_threads(1)
                made = trainer(folder)
                made.resume()
                made.train()
                (folder / "hash").write_text(state_hash(made))
                code = 0
            finally:
                os._exit(code)
        if killed < kills:
            saving = folder / "checkpoints"
            if chance.random() < 0.5:  # half of the kills fall into a save
                deadline = time.monotonic() + 1
                while not list(saving.glob(".draft-*")) and time.monotonic() < deadline:
                    if os.waitpid(child, os.WNOHANG)[0]:
                        child = 0
                        break
                    time.sleep(0.0002)
            else:
                time.sleep(chance.uniform(0.0, 0.12))
            if child:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
                killed += 1
                continue
        else:
            assert os.waitpid(child, 0)[1] == 0
        return killed, (folder / "hash").read_text(), 0.0


def hunt(tmp_path, uninterrupted, total: int) -> int:
    """Runs killed again and again until `total` kills are spent; each must end as the uninterrupted one."""
    killed, attempt = 0, 0
    while killed < total:
        folder = tmp_path / f"run-{attempt}"
        some, found, _ = kill_until_done(folder, total - killed, attempt)
        assert found == uninterrupted[0]
        assert losses(folder) == uninterrupted[1]
        killed, attempt = killed + some, attempt + 1
    return killed


def test_kill_minus_nine_costs_nothing_but_time(tmp_path, uninterrupted):
    torch.set_num_threads(1)
    assert hunt(tmp_path, uninterrupted, 12) == 12


@pytest.mark.slow  # a hundred and twenty processes
def test_a_hundred_and_twenty_kills(tmp_path, uninterrupted):
    torch.set_num_threads(1)
    assert hunt(tmp_path, uninterrupted, 120) == 120


def test_without_a_compiler_training_goes_on_and_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr("headway._compile.compiler_missing", lambda device: "no C++ compiler")
    with pytest.warns(AdviceWarning, match="train.compile: no C.. compiler; training continues uncompiled"):
        made = trainer(tmp_path, replace(TRAIN, compile=True))
    assert "features" not in vars(made.model)  # nothing compiled in its place


@pytest.mark.slow  # compiling takes half a minute
def test_a_compiled_step_is_the_plain_one(tmp_path):
    config = replace(TRAIN, compile=True)
    made, plain = trainer(tmp_path / "compiled", config), trainer(tmp_path / "plain")
    for each in (made, plain):
        for module in each.model.modules():
            if isinstance(module, Dropout):
                module.p = 0.0
            if hasattr(module, "dropout") and isinstance(module.dropout, float):
                module.dropout = 0.0
    for _ in range(3):
        assert made.advance()["loss"] == pytest.approx(plain.advance()["loss"], abs=1e-5)


def interrupted_in(tmp_path, made, name: str, where: object) -> Interrupted:
    """A run that gets SIGTERM in the middle of a method of `where`, the second time it is called."""
    plain, calls = getattr(where, name), []

    def method(*arguments, **settings):
        calls.append(made.step)
        if len(calls) == 2:
            os.kill(os.getpid(), signal.SIGTERM)
        return plain(*arguments, **settings)

    setattr(where, name, method)
    with pytest.raises(Interrupted) as caught:
        made.train()
    assert made.step == calls[1], "the step at hand is the last one"
    return caught.value


@pytest.mark.parametrize("place", ["validate", "samples", "save", "mark_best", "prune"])
def test_a_signal_during_an_evaluation_or_a_save_loses_nothing(tmp_path, place, uninterrupted):
    made = trainer(tmp_path)
    worse = iter([1.0, 2.0, 3.0])
    if place == "validate":  # an evaluation that is no better asks for no save of its own
        made.task.validate = lambda model, device: next(worse)
    where = made.task if place in ("validate", "samples") else made.checkpoints
    stopped = interrupted_in(tmp_path, made, place, where)
    assert stopped.exit_code == 143
    assert f"saved at step {made.step};" in str(stopped)
    again = trainer(tmp_path)
    assert again.resume()
    assert again.step == made.step
    again.train()
    if place != "validate":
        assert (state_hash(again), losses(tmp_path)) == uninterrupted


def in_child(folder, ready: int) -> int:
    """Fork a trainer that says when it listens to signals; its exit code is that of the command."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        torch.set_num_threads(1)
        made = trainer(folder)
        made.resume()
        plain = made.advance
        made.advance = lambda: (os.write(ready, b"."), plain())[1]
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)  # what comes after the last step comes too late
        made.train()
        (folder / "hash").write_text(state_hash(made))
        code = 0
    except Interrupted as stopped:
        code = stopped.exit_code
    finally:
        os._exit(code)


def test_fifty_signals_at_random_times_each_end_in_a_sound_checkpoint(tmp_path, uninterrupted):
    chance, stopped, attempt = random.Random(0), 0, 0
    while stopped < 50:
        folder, attempt = tmp_path / f"run-{attempt}", attempt + 1
        while True:
            reading, ready = os.pipe()
            child = in_child(folder, ready)
            os.close(ready)
            os.read(reading, 1)
            time.sleep(chance.uniform(0.0, 0.06))
            asked = time.monotonic()
            number = chance.choice([signal.SIGTERM, signal.SIGINT])
            os.kill(child, number)
            code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            os.close(reading)
            assert time.monotonic() - asked < 10
            if code == 0:
                break
            assert code == 128 + number
            assert trainer(folder).resume()
            stopped += 1
        assert (folder / "hash").read_text() == uninterrupted[0]
        assert losses(folder) == uninterrupted[1]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_second_signal_ends_the_process_at_once(tmp_path, number):
    child = os.fork()
    if not child:
        try:
            made = trainer(tmp_path)
            made.task.validate = lambda model, device: [os.kill(os.getpid(), number), time.sleep(60)]
            signal.signal(signal.SIGALRM, lambda *_: os.kill(os.getpid(), number))
            signal.setitimer(signal.ITIMER_REAL, 0.5)
            made.train()
        finally:
            os._exit(1)
    started = time.monotonic()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 128 + number
    assert time.monotonic() - started < 10
