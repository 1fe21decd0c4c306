"""Every task of the registry, trained by 1, 2 and 4 ranks: the same bytes, also if another number of ranks goes on."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from headway.config import flat, override, plain
from headway.data.augment import Augmentation, Mixed
from headway.data.autoaugment import AutoAugment
from headway.errors import ConfigError
from headway.reliability.runs import TINY, TinyRun
from headway.runs.config import RunConfig
from headway.runs.train import train_run
from headway.tasks.image_batches import TrainingImages
from headway.tasks.registry import TASKS
from headway.tasks.sharing import computing_after
from headway.training.ranks import Alone
from headway.training.signals import Interrupted
from tests.training.small import Silent
from tests.training.test_ranks import content
from tests.training.together import together

REFUSED = {"world": "makes its own data while it trains", "pose": "keeps running statistics"}
SHARED_OUT = [name for name, tiny in TINY.items() if tiny.trained and tiny.available and name not in REFUSED]
STEPS = 30


class Stopping(Silent):
    """Sends this process SIGTERM after a step."""

    def __init__(self, step: int | None) -> None:
        super().__init__()
        self.at = step

    def step(self, entry: dict[str, object]) -> None:
        if entry["step"] == self.at:
            os.kill(os.getpid(), signal.SIGTERM)


def config_of(tiny: TinyRun, cache: Path, steps: int) -> RunConfig:
    """The task's tiny run with four micro-batches a step, and dropout where its model has some."""
    keys = flat(plain(tiny.config(cache)))
    dropout = [key for key in keys if key.startswith("model.") and key.endswith(".dropout")]
    often = {"train.steps": steps, "train.evaluate_every": steps // 2, "train.save_every": steps // 3}
    config = tiny.config(cache, {**often, "train.accumulate": 4, **dict.fromkeys(dropout, 0.1)})
    # Convolutions before a transformer have BatchNorm, whose statistics are those of one process.
    return override(config, {"model.patches": "patches"}) if "model.patches.widths" in keys else config


def training(config: RunConfig, folder: Path, stop: int | None = None) -> Callable[[Alone], int]:
    """What each rank does: train, or go on, and stop after a step."""

    def work(ranks: Alone) -> int:
        resume = (folder / "config.yaml").exists()
        try:
            train_run(config, folder, Stopping(stop if ranks.first else None), resume=resume, ranks=ranks)
        except Interrupted as error:
            return error.exit_code
        return 0

    return work


def codes(count: int, work: Callable[[Alone], int]) -> set[int | None]:
    ended = together(count, work)
    assert not any(each.problem for each in ended), [each.err for each in ended]
    return {each.code for each in ended}


def expect_same_run(name: str, folder: Path, steps: int, counts: tuple[int, ...]) -> None:
    """Train by each number of ranks, and by 2 that stop, then 4 that stop, then one."""
    tiny = TINY[name]
    with tiny.short():
        config = config_of(tiny, folder / "cache", steps)
        assert codes(1, training(config, folder / "1")) == {0}
        for count in counts:
            assert codes(count, training(config, folder / str(count))) == {0}
            assert content(folder / str(count)) == content(folder / "1"), count
        assert codes(2, training(config, folder / "parts", stop=1)) == {143}
        if len(counts) > 1:
            assert codes(4, training(config, folder / "parts", stop=steps // 2)) == {143}
        assert codes(1, training(config, folder / "parts")) == {0}
        assert content(folder / "parts") == content(folder / "1")


def test_every_task_of_the_registry_is_tried_with_dropout_or_refused(tmp_path):
    trained = {name for name, tiny in TINY.items() if tiny.trained and name not in REFUSED}
    assert trained | set(REFUSED) == set(TASKS)
    for name in trained:
        keys = flat(plain(config_of(TINY[name], tmp_path, STEPS)))
        assert any(key.endswith(".dropout") and value == 0.1 for key, value in keys.items()), name


@pytest.mark.slow  # six trainings of 30 steps for each task
@pytest.mark.parametrize("name", SHARED_OUT)
def test_any_number_of_ranks_trains_the_same_run(name, tmp_path):
    expect_same_run(name, tmp_path, STEPS, (2, 4))


@pytest.mark.parametrize("name", ["translation"])
def test_two_ranks_train_the_same_run(name, tmp_path):
    expect_same_run(name, tmp_path, 3, (2,))


@pytest.mark.parametrize("name", REFUSED)
def test_what_one_process_must_do_is_refused(name, tmp_path):
    class Two(Alone):
        rank, size = 0, 2

    tiny = TINY[name]
    if not tiny.available:
        pytest.skip("needs gymnasium")
    with tiny.short(), pytest.raises(ConfigError, match=REFUSED[name]):
        train_run(tiny.config(tmp_path), tmp_path / "run", Silent(), ranks=Two())


def test_a_rank_augments_its_images_with_the_draws_of_its_own_micro_batches():
    pixels = np.random.default_rng(0).integers(0, 256, (8, 3, 8, 8), dtype=np.uint8)
    augment, rows = Augmentation(policy=AutoAugment(), erase=0.25, mix=0.5), torch.arange(8)

    def made(before: int) -> list[torch.Tensor]:
        images = TrainingImages(pixels, augment, (0.5,) * 3, (0.5,) * 3, seed=3)
        with computing_after(before):
            mixed = [images.prepared(rows[4 * n : 4 * n + 4], step=5) for n in range(before, 2)]
        return [each.images if isinstance(each, Mixed) else each for each in mixed]

    both, (second,) = made(0), made(1)
    assert torch.equal(both[1], second)
    assert not torch.equal(both[0], second)
