"""Checkpoints that a thread writes while training goes on: the bytes, the errors and the promises of the others."""

from __future__ import annotations

import errno
import os
import random
import re
import shutil
import signal
import threading
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from headway.errors import NonFiniteError, RankError, StorageError
from headway.reliability.disks import DyingDisk, FailingDisk, WatchedDisk, use, used
from headway.reliability.process import Ended, start
from headway.storage.disk import Disk
from headway.training.checkpoints import MODEL, Checkpoints
from headway.training.config import TrainConfig
from headway.training.ranks import ALONE, Alone
from headway.training.signals import Interrupted
from tests.training.small import TRAIN, CountingTask, Silent, losses, trainer
from tests.training.test_ranks import SHARED, content, shared
from tests.training.together import together

ASYNC = replace(TRAIN, save_async=True)
NO_SPACE = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
WAIT = 30.0  # seconds for what takes milliseconds


class HeldDisk(Disk):
    """A disk that holds back what it writes to the model of a checkpoint until it is let go."""

    def __init__(self) -> None:
        self.began, self.go_on = threading.Event(), threading.Event()

    def write(self, path: Path, writer: Callable[[Path], None]) -> None:
        if path.name == MODEL:
            self.began.set()
            assert self.go_on.wait(WAIT)
        super().write(path, writer)


def files(folder: Path) -> dict[str, bytes]:
    """All files of a run but the log, whose clock differs."""
    found = (path for path in folder.rglob("*") if path.is_file() and path.name != "log.jsonl")
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


@pytest.mark.parametrize("changes", [{}, {"ema": 0.0, "keep_optimiser": True}])
def test_a_run_has_the_same_bytes(changes, tmp_path):
    for name, config in (("sync", TRAIN), ("async", ASYNC)):
        trainer(tmp_path / name, replace(config, **changes)).train()
    assert files(tmp_path / "async") == files(tmp_path / "sync")
    assert losses(tmp_path / "async") == losses(tmp_path / "sync")


@pytest.mark.parametrize("changes", [{}, {"shard": "full", "reduction": "fast"}])
def test_a_run_of_two_ranks_has_the_same_bytes(changes, tmp_path):
    for name, save_async in (("sync", False), ("async", True)):
        config = replace(SHARED, save_async=save_async, **changes)
        ended = together(2, lambda ranks, name=name, config=config: shared(ranks, tmp_path / name, config).train())
        assert [each.code for each in ended] == [0, 0], [each.err for each in ended]
    assert files(tmp_path / "async") == files(tmp_path / "sync")


def test_training_goes_on_while_a_checkpoint_is_written_from_a_copy(tmp_path):
    made, plain = trainer(tmp_path / "held", ASYNC), trainer(tmp_path / "plain", TRAIN)
    for each in (made, plain):
        for _ in range(3):
            each.advance()
    plain.save()
    held = HeldDisk()
    with used(held):
        made.save()
        assert held.began.wait(WAIT)
        made.advance()  # changes the weights
        assert not made.checkpoints.steps()
        held.go_on.set()
        made.writer.wait()
    assert content(tmp_path / "held")[0] == content(tmp_path / "plain")[0]


def waits(folder: Path, config: TrainConfig, act: Callable[[int], None], task: CountingTask | None = None) -> None:
    """Train on a disk that holds the first checkpoint back until `act`, called after each step, lets it go."""
    held = HeldDisk()

    class Acting(Silent):
        def step(self, entry: dict[str, object]) -> None:
            act(int(str(entry["step"])))
            if entry["step"] == config.save_every + 1:  # one step was taken meanwhile
                assert held.began.wait(WAIT)
                assert not Checkpoints(folder).steps()
                threading.Timer(0.3, held.go_on.set).start()

    made = trainer(folder, config, task)
    made.callback = Acting()
    made.stop_request.note = made.callback.note
    with used(held):
        made.train()


def test_the_next_save_waits(tmp_path):
    waits(tmp_path, replace(ASYNC, save_every=2, steps=4, keep=9), lambda step: None)
    assert Checkpoints(tmp_path).steps() == [2, 4]


def test_sigterm_waits_and_saves_its_own_step(tmp_path):
    def ask(step: int) -> None:
        if step == 4:
            os.kill(os.getpid(), signal.SIGTERM)

    with pytest.raises(Interrupted) as error:
        waits(tmp_path, ASYNC, ask)
    assert error.value.exit_code == 143
    assert Checkpoints(tmp_path).steps() == [3, 4]
    assert Checkpoints(tmp_path).newest_intact(resumable=True) == 4


def poisoned() -> CountingTask:
    task = CountingTask(TRAIN.batch_tokens)
    task.poison = 2 * 4  # of two micro-batches a step: in step 5, while the checkpoint of step 3 is written
    return task


def test_an_error_of_training_waits(tmp_path):
    with pytest.raises(NonFiniteError, match="the checkpoint of step 3 is intact"):
        waits(tmp_path, replace(ASYNC, evaluate_every=12), lambda step: None, poisoned())


def test_a_rollback_waits(tmp_path):
    waits(tmp_path, replace(ASYNC, evaluate_every=12, non_finite="rollback"), lambda step: None, poisoned())
    assert Checkpoints(tmp_path).steps()[-1] == ASYNC.steps


@pytest.mark.parametrize("changes", [{}, {"save_every": 12}])  # seen in a later step, and at the end
def test_a_full_disk_is_the_same_error(changes, tmp_path):
    config = replace(ASYNC, **changes)
    with pytest.raises(StorageError) as plain, used(Refusing()):
        trainer(tmp_path / "sync", replace(config, save_async=False)).train()
    with pytest.raises(StorageError) as error, used(Refusing()):
        trainer(tmp_path / "async", config).train()
    shown = [re.sub(r"[0-9,]+ bytes", "N bytes", str(each.value)) for each in (plain, error)]
    assert shown[1].replace("async", "sync") == shown[0]
    assert not list(tmp_path.rglob(".draft-*"))
    trainer(tmp_path / "async", config).train()
    trainer(tmp_path / "whole", config).train()
    assert files(tmp_path / "async") == files(tmp_path / "whole")


class Refusing(Disk):
    """A disk without room for a checkpoint."""

    def write(self, path: Path, writer: Callable[[Path], None]) -> None:
        if path.name == MODEL:
            raise NO_SPACE
        super().write(path, writer)


def test_an_error_of_training_and_one_of_the_disk_are_both_told(tmp_path):
    class Late(HeldDisk):
        def write(self, path: Path, writer: Callable[[Path], None]) -> None:
            super().write(path, writer)
            if path.name == MODEL:
                raise NO_SPACE

    made, held = trainer(tmp_path, ASYNC), Late()

    class Failing(Silent):
        def step(self, entry: dict[str, object]) -> None:
            if entry["step"] == 4:
                assert held.began.wait(WAIT)
                threading.Timer(0.3, held.go_on.set).start()
                raise NonFiniteError("of training")

    made.callback = callback = Failing()
    with pytest.raises(NonFiniteError, match="of training"), used(held):
        made.train()
    assert any("the last checkpoint could not be written" in note for note in callback.notes)


def resumed(folder: Path, disk: Disk | None = None) -> Ended:
    """How a process ends that trains, or goes on, on this disk."""

    def work() -> None:
        if disk is not None:
            use(disk)
        made = trainer(folder, replace(ASYNC, steps=6, save_every=2))
        made.resume()
        made.train()

    return start(work).wait()


class Told(WatchedDisk):
    """A disk that counts its operations for another process."""

    def __init__(self, into: Path) -> None:
        super().__init__()
        self.into = into

    def point(self, number: int, half: Callable[[], None]) -> None:
        self.into.write_text(str(number + 1))


@pytest.mark.parametrize("every", [8, pytest.param(1, marks=pytest.mark.slow)])  # slow: 130 processes
def test_kill_9_at_any_operation_of_the_disk_loses_nothing(every, tmp_path):
    """The thread dies with the process, at whatever training does meanwhile."""
    ended = resumed(tmp_path / "whole", Told(tmp_path / "points"))
    assert ended.code == 0, ended.err
    points = int((tmp_path / "points").read_text())
    assert points > 30
    for point in range(0, points, every):
        folder = tmp_path / str(point)
        assert resumed(folder, DyingDisk(point, random.Random(point))).signal == signal.SIGKILL
        step = Checkpoints(folder).newest_intact(resumable=True)
        if step is not None:
            Checkpoints(folder).read(step)
        assert resumed(folder).code == 0
        assert files(folder) == files(tmp_path / "whole"), point
        shutil.rmtree(folder)


def saved_beside(rank: int, disk: Callable[[], Disk], folder: Path) -> list[Ended]:
    """Two ranks with shards go on from step 2 by a step and save it, one of them on another disk."""

    def work(ranks: Alone) -> int:
        made = shared(ranks, folder, replace(SHARED, save_async=True, shard="full", reduction="fast"))
        made.resume()
        made.advance()
        with used(disk() if ranks.rank == rank else Disk()):
            try:
                with made.writer.finished(made.callback.note):
                    made.save()
            except (StorageError, RankError) as error:
                return error.exit_code
        return 0

    return together(2, work)


@pytest.mark.parametrize("every", [7, pytest.param(1, marks=pytest.mark.slow)])  # slow: two processes for each
@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize("kind", ["killed", "disk full"])
def test_a_sharded_save_that_fails_leaves_the_old_or_the_new(kind, rank, every, tmp_path):
    begun = tmp_path / "begun"
    config = replace(SHARED, save_async=True, shard="full", reduction="fast", steps=2)
    assert {each.code for each in together(2, lambda ranks: shared(ranks, begun, config).train())} == {0}
    shutil.copytree(begun, tmp_path / "counted")
    counted = saved_beside(rank, partial(Told, tmp_path / "points"), tmp_path / "counted")
    assert [each.code for each in counted] == [0, 0], [each.err for each in counted]
    points = int((tmp_path / "points").read_text())
    assert points >= (10 if rank == 0 else 4)
    for point in range(1, points, every):
        folder = tmp_path / str(point)
        shutil.copytree(begun, folder)

        def disk(point: int = point) -> Disk:
            if kind == "killed":
                return DyingDisk(point, random.Random(point))
            return FailingDisk(point, NO_SPACE, once=True)

        ended = saved_beside(rank, disk, folder)
        assert any(each.code != 0 for each in ended), point
        found = Checkpoints(folder)
        step = found.newest_intact(resumable=True)
        assert step in (2, 3)
        found.read(step)
        assert found.steps() == ([2] if step == 2 else [2, 3])
        if kind == "disk full" and rank == 1:
            assert {each.code for each in ended} == {StorageError.exit_code}


def test_one_process_writes_with_shards_settings_alone(tmp_path):
    """One process without ranks does not shard its model: its saves need no process group."""
    made = trainer(tmp_path, replace(ASYNC, shard="full", reduction="fast"))
    assert made.ranks is ALONE
    made.train()
    assert Checkpoints(tmp_path).newest_intact(resumable=True) == ASYNC.steps
