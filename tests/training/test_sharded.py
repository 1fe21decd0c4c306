"""Shards, fast sums and recomputed blocks: the curve of one process, and checkpoints that any number of ranks reads."""

from __future__ import annotations

import errno
import random
import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save
from torch import nn

from headway.config import override
from headway.errors import ConfigError, RankError, StorageError
from headway.models.drawing import draw_later
from headway.nn.lora import Lora
from headway.presets import PRESETS
from headway.reliability.disks import DyingDisk, FailingDisk, WatchedDisk, used
from headway.reliability.process import Ended
from headway.runs.config import RunConfig
from headway.runs.plan import parameter_count
from headway.runs.train import train_run
from headway.storage.disk import Disk
from headway.storage.tensors import safetensors_header
from headway.training import parallel
from headway.training.checkpoints import MODEL, TRAINER, Checkpoints
from headway.training.config import TrainConfig
from headway.training.log import LOG, read_log
from headway.training.optimisers import Muon
from headway.training.ranks import ALONE, Alone
from headway.training.shards import local
from headway.training.trainer import Trainer
from tests.training.small import MODEL as MODEL_CONFIG
from tests.training.small import TRAIN, CountingTask, Silent
from tests.training.test_ranks import content, shared
from tests.training.together import together

TWELVE = replace(TRAIN, accumulate=12, batch_tokens=16, steps=6, evaluate_every=3, save_every=3, reduction="fast")


def train(count: int, folder: Path, config: TrainConfig, beside: int | None = None) -> None:
    def work(ranks: Alone) -> None:
        made = shared(ranks, folder, config)
        made.resume()
        made.train()

    ended = together(count, work, beside=beside)
    assert [each.code for each in ended] == [0] * count, [each.err for each in ended]


def curve(folder: Path) -> list[float]:
    return [value for entry in read_log(folder / LOG) for key, value in entry.items() if key in ("loss", "val_loss")]


@pytest.fixture(scope="module")
def alone(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("alone")
    shared(ALONE, folder, TWELVE).train()
    return folder


@pytest.mark.parametrize(
    ("count", "beside", "changes"),
    [
        (2, None, {}),
        (2, None, {"shard": "full"}),
        (3, None, {"shard": "full", "recompute": "blocks"}),
        (4, 2, {"shard": "node"}),
        (1, None, {"shard": "full"}),
    ],
)
def test_fast_sums_and_shards_have_the_curve_of_one_process(count, beside, changes, alone, tmp_path):
    train(count, tmp_path, replace(TWELVE, **changes), beside)
    assert curve(tmp_path) == pytest.approx(curve(alone), rel=1e-6)
    files, plain = content(tmp_path)[0], content(alone)[0]
    assert files.keys() == plain.keys()
    assert {name: len(data) for name, data in files.items()} == {name: len(data) for name, data in plain.items()}
    made = load_file(Checkpoints(tmp_path).path(6) / MODEL)
    for name, tensor in load_file(Checkpoints(alone).path(6) / MODEL).items():
        torch.testing.assert_close(made[name], tensor, rtol=0, atol=1e-5)


@pytest.fixture(scope="module")
def of_two(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("two")
    train(2, folder, replace(TWELVE, shard="full"))
    return folder


@pytest.mark.parametrize(("count", "shard"), [(1, "none"), (3, "full"), (4, "full")])
def test_what_two_ranks_saved_is_read_by_any_number_to_the_bit(count, shard, of_two, tmp_path):
    folder = tmp_path / "copy"
    shutil.copytree(of_two, folder)

    def work(ranks: Alone) -> None:
        made = shared(ranks, folder, replace(TWELVE, shard=shard))
        assert made.resume()
        ranks.expect_alike(0)
        if ranks.first:
            shutil.rmtree(made.checkpoints.path(6))
        ranks.expect_alike(0)
        made.save()

    assert {each.code for each in together(count, work)} == {0}
    for name in (MODEL, TRAINER):
        assert content(folder)[0][name] == content(of_two)[0][name]


def test_units_are_gathered_together_or_block_by_block_with_the_same_curve(alone, tmp_path, monkeypatch):
    for size, folder in ((parallel.UNIT, tmp_path / "one"), (1, tmp_path / "each")):
        monkeypatch.setattr(parallel, "UNIT", size)
        train(2, folder, replace(TWELVE, shard="full", recompute="blocks"))
        assert curve(folder) == pytest.approx(curve(alone), rel=1e-6)


@pytest.mark.parametrize(("unit", "expected"), [(1, [1, 1, 1, 1]), (25, [3, 1]), (10**6, [4])])
def test_small_blocks_are_a_unit_together(unit, expected, monkeypatch):
    monkeypatch.setattr(parallel, "UNIT", unit)
    blocks = [nn.Linear(9, 1, bias=False) for _ in range(4)]
    found = parallel._units(blocks)
    assert [len(each) for each in found] == expected
    assert [block for each in found for block in each] == blocks


def test_recomputed_blocks_change_no_bit(tmp_path):
    config = replace(TRAIN, steps=4, evaluate_every=4)
    for name, recompute in (("plain", "none"), ("again", "blocks")):
        shared(ALONE, tmp_path / name, replace(config, recompute=recompute)).train()
    assert content(tmp_path / "again") == content(tmp_path / "plain")


@pytest.mark.parametrize("shard", ["none", "full"])
def test_autocast_to_16_bits_has_the_curve_of_one_process(shard, tmp_path):
    plain = replace(TWELVE, accumulate=4, steps=2, evaluate_every=2)
    config = replace(plain, precision="bf16")
    for name, each in (("plain", plain), ("alone", config)):
        shared(ALONE, tmp_path / name, each).train()
    train(2, tmp_path / "two", replace(config, shard=shard))
    assert curve(tmp_path / "two") == pytest.approx(curve(tmp_path / "alone"), rel=1e-5)
    assert curve(tmp_path / "two") != pytest.approx(curve(tmp_path / "plain"), rel=1e-5)


@pytest.mark.parametrize("changes", [{"lora": Lora(rank=2)}, {"freeze": ("*.blocks.0.*", "embedding*")}])
def test_shards_of_which_some_do_not_train_have_the_curve_of_one_process(changes, tmp_path):
    config = replace(TWELVE, ema=0.0, **changes)
    shared(ALONE, tmp_path / "alone", config).train()
    train(2, tmp_path / "two", replace(config, shard="full"))
    assert curve(tmp_path / "two") == pytest.approx(curve(tmp_path / "alone"), rel=1e-6)
    made = load_file(Checkpoints(tmp_path / "two").path(6) / MODEL)
    plain = load_file(Checkpoints(tmp_path / "alone").path(6) / MODEL)
    assert made.keys() == plain.keys()
    for name, tensor in plain.items():
        torch.testing.assert_close(made[name], tensor, rtol=0, atol=1e-5)
    shutil.rmtree(Checkpoints(tmp_path / "two").path(6))
    train(1, tmp_path / "two", config)  # from step 3 on
    assert curve(tmp_path / "two") == pytest.approx(curve(tmp_path / "alone"), rel=1e-6)


def test_muon_of_shards_is_muon_to_the_rounding_of_16_bits(tmp_path):
    config = replace(TWELVE, optimiser=Muon(), steps=3)
    shared(ALONE, tmp_path / "alone", config).train()
    train(2, tmp_path / "two", replace(config, shard="full"))
    assert curve(tmp_path / "two") == pytest.approx(curve(tmp_path / "alone"), rel=2e-3)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_model_drawn_later_begins_with_the_same_bits(count, tmp_path):
    def work(ranks: Alone) -> None:
        found = draw_later(MODEL_CONFIG, seed=TWELVE.seed)
        assert found is not None
        model, drawing = found
        config = replace(TWELVE, shard="full")
        later = Trainer(model, CountingTask(config.batch_tokens), config, tmp_path, Silent(), ranks, drawing=drawing)
        now = shared(ranks, tmp_path, config)
        expected = now.model.state_dict()
        for name, tensor in later.model.state_dict().items():
            assert torch.equal(local(tensor), local(expected[name])), name
        assert later.advance()["loss"] == now.advance()["loss"]
        assert later.ema.keys() == now.ema.keys()

    ended = together(count, work)
    assert [each.code for each in ended] == [0] * count, [each.err for each in ended]


def peak_of_a_start(folder: Path, config: RunConfig) -> list[int]:
    """The most memory that each of four ranks took until its first step, in bytes beyond what it had."""

    def work(ranks: Alone) -> None:
        def begin(self: Trainer) -> None:
            (folder / f"peak-{ranks.rank}").write_text(str(_status("VmHWM") - before))

        Trainer.train = begin  # type: ignore[method-assign]  # in this process alone
        for task in (1, 2):  # a small model first, for what is allocated once
            made = config if task == 2 else override(config, {"model.layers": 1, "model.width": 8, "model.heads": 1})
            Path("/proc/self/clear_refs").write_text("5")  # begin the peak anew
            before = _status("VmRSS")
            train_run(made, folder / f"run-{task}", ranks=ranks)

    ended = together(4, work)
    assert [each.code for each in ended] == [0] * 4, [each.err for each in ended]
    return [int((folder / f"peak-{rank}").read_text()) for rank in range(4)]


def _status(name: str) -> int:
    line = next(each for each in Path("/proc/self/status").read_text().splitlines() if each.startswith(name))
    return int(line.split()[1]) * 1024


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_no_rank_builds_all_of_the_model_in_memory(tmp_path):
    (tmp_path / "book.txt").write_text("the quick brown fox jumps over the lazy dog\n" * 300)
    changes = {
        "data.spec": str(tmp_path / "book.txt"), "data.cache": str(tmp_path / "cache"), "model.width": 384,
        "model.layers": 12, "model.heads": 4, "train.accumulate": 4, "train.device": "cpu", "train.shard": "full",
    }  # fmt: skip
    config = override(PRESETS["gpt-char"].recipe(), changes)
    size = 4 * parameter_count(config)
    assert size > 80e6
    assert max(peak_of_a_start(tmp_path, config)) < 0.6 * size


def test_a_header_is_that_of_safetensors():
    types = (torch.int64, torch.float32, torch.bfloat16, torch.float64, torch.bool, torch.uint8, torch.int32)
    tensors = {f"{name}é": torch.zeros(n, 3, dtype=dtype) for n, (name, dtype) in enumerate(zip("gfedcba", types))}  # noqa: B905
    tensors["scalar"] = torch.tensor(1.0)
    head, order = safetensors_header(tensors)
    assert save(tensors).startswith(head)
    assert sorted(order) == sorted(tensors)


def test_settings_that_exclude_each_other_are_refused():
    with pytest.raises(ConfigError, match="allowed with shards: auto, fast"):
        TrainConfig(reduction="exact", shard="full")


class Watched(WatchedDisk):
    """A disk that counts its operations for another process."""

    def __init__(self, into: Path) -> None:
        super().__init__()
        self.into = into

    def point(self, number: int, half: Callable[[], None]) -> None:
        self.into.write_text(str(number + 1))


def saved_with(rank: int, disk: Callable[[], Disk], folder: Path) -> list[Ended]:
    """Two ranks go on from step 3 by a step and save it, one of them on another disk."""

    def work(ranks: Alone) -> int:
        made = shared(ranks, folder, replace(TWELVE, shard="full"))
        made.resume()
        made.advance()
        with used(disk() if ranks.rank == rank else Disk()):
            try:
                made.save()
            except (StorageError, RankError) as error:
                return error.exit_code
        return 0

    return together(2, work)


def expect_old_or_new(folder: Path) -> None:
    """The newest checkpoint is sound, and that of step 3 or that of step 4."""
    found = Checkpoints(folder)
    step = found.newest_intact(resumable=True)
    assert step in (3, 4)
    found.read(step)
    assert found.steps() == ([3] if step == 3 else [3, 4])


@pytest.mark.slow  # two processes for each of some twenty operations, three times
@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize("kind", ["killed", "power lost", "disk full"])
def test_a_save_that_fails_at_any_operation_of_any_rank_leaves_the_old_or_the_new(kind, rank, of_two, tmp_path):
    shutil.copytree(of_two, tmp_path / "begun")
    shutil.rmtree(Checkpoints(tmp_path / "begun").path(6))
    counted = tmp_path / "counted"
    shutil.copytree(tmp_path / "begun", counted)
    assert [each.code for each in saved_with(rank, lambda: Watched(tmp_path / "points"), counted)] == [0, 0]
    points = int((tmp_path / "points").read_text())
    assert points >= (10 if rank == 0 else 4)
    for point in range(points):
        folder = tmp_path / f"{point}"
        shutil.copytree(tmp_path / "begun", folder)

        def disk(point: int = point) -> Disk:
            if kind == "disk full":
                return FailingDisk(point, OSError(errno.ENOSPC, "no"), once=True)
            return DyingDisk(point, random.Random(point), power_loss=kind == "power lost")

        ended = saved_with(rank, disk, folder)
        assert any(each.code != 0 for each in ended), point
        expect_old_or_new(folder)
        if kind == "disk full" and rank == 1:
            assert {each.code for each in ended} == {StorageError.exit_code}


def test_a_disk_that_is_full_for_one_rank_fails_the_save_of_all(of_two, tmp_path):
    folder = tmp_path / "copy"
    shutil.copytree(of_two, folder)
    shutil.rmtree(Checkpoints(folder).path(6))
    ended = saved_with(1, lambda: FailingDisk(2, OSError(errno.ENOSPC, "no")), folder)
    assert {each.code for each in ended} == {StorageError.exit_code}
    assert Checkpoints(folder).newest_intact(resumable=True) == 3
    assert not list(folder.rglob(".draft-*"))
