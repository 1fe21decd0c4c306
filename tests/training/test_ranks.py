"""Several ranks train as one process does, to the bit, and decide alike."""

from __future__ import annotations

import json
import os
import signal
import socket
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from headway.errors import ConfigError, NonFiniteError
from headway.models import build_model
from headway.nn.lora import Lora
from headway.reliability.process import start
from headway.tasks.sharing import in_one, in_parts, shared_by, texts_in_parts, values_in_parts
from headway.tasks.training_task import Batch, Term, cross_entropy
from headway.training import stragglers
from headway.training.checkpoints import Checkpoints
from headway.training.config import TrainConfig
from headway.training.gradient_sums import backpropagate_pairwise, pairwise_sum
from headway.training.optimisers import Muon
from headway.training.randomness import Randomness
from headway.training.ranks import ALONE, STORE, Alone, RankPlace, joined_ranks, place_of
from headway.training.signals import Interrupted
from headway.training.trainer import Trainer
from tests.data.numpy_order import OlderBlocks
from tests.training.small import MODEL, TRAIN, CountingTask, Silent, losses
from tests.training.together import together

SHARED = replace(TRAIN, accumulate=4, batch_tokens=16, steps=6, evaluate_every=3, save_every=2)


class Poisoned(CountingTask):
    """A task of which one rank computes a loss that is NaN, after so many others."""

    def __init__(self, ranks: Alone, *, rank: int, after: int) -> None:
        super().__init__(SHARED.batch_tokens)
        self.poison = after if ranks.rank == rank else None


def shared(
    ranks: Alone,
    folder: Path,
    config: TrainConfig = SHARED,
    *,
    stop: int | None = None,
    task: CountingTask | None = None,
) -> Trainer:
    """A trainer of the small model; the last rank receives SIGTERM in step `stop`."""

    class Stopping(Silent):
        def step(self, entry: dict[str, object]) -> None:
            if entry["step"] == stop and ranks.rank == ranks.size - 1:
                os.kill(os.getpid(), signal.SIGTERM)

    folder.mkdir(parents=True, exist_ok=True)
    task = task or CountingTask(config.batch_tokens)
    return Trainer(build_model(MODEL, seed=config.seed), task, config, folder, Stopping(), ranks)


def train(count: int, folder: Path, config: TrainConfig = SHARED, *, stop: int | None = None) -> list[int | None]:
    """Train or go on in a folder by so many ranks -> their exit codes."""

    def work(ranks: Alone) -> int:
        made = shared(ranks, folder, config, stop=stop)
        made.resume()
        try:
            made.train()
        except Interrupted as error:
            return error.exit_code
        return 0

    ended = together(count, work)
    assert not any(each.problem for each in ended), [each.err for each in ended]
    return [each.code for each in ended]


def content(folder: Path) -> tuple[dict[str, bytes], list[tuple[object, ...]]]:
    """The newest checkpoint, byte by byte, and the log without its clock."""
    newest = Checkpoints(folder).path(Checkpoints(folder).steps()[-1])
    return {path.name: path.read_bytes() for path in newest.iterdir()}, losses(folder)


@pytest.fixture(scope="module")
def alone(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("alone")
    (ended,) = together(1, lambda _: shared(ALONE, folder).train())  # a process with one thread, as each rank has
    assert ended.code == 0, ended.err
    return folder


@pytest.mark.parametrize("count", [2, 4])
def test_ranks_write_the_same_run_as_one_process(count, alone, tmp_path):
    assert train(count, tmp_path) == [0] * count
    assert content(tmp_path) == content(alone)


@pytest.mark.parametrize(
    "changes",
    [
        {"optimiser": Muon()},
        {"precision": "bf16"},
        {"lora": Lora(rank=2), "layer_decay": 0.5},
        {"ema": 0.0, "clip": 0.0},
    ],
)
def test_ranks_write_the_same_run_with_other_settings(changes, tmp_path):
    config = replace(SHARED, steps=4, evaluate_every=2, **changes)
    (ended,) = together(1, lambda _: shared(ALONE, tmp_path / "alone", config).train())
    assert ended.code == 0, ended.err
    assert train(2, tmp_path / "two", config) == [0, 0]
    assert content(tmp_path / "two") == content(tmp_path / "alone")


def test_a_signal_to_one_rank_stops_all_and_another_number_of_ranks_goes_on(alone, tmp_path):
    assert train(2, tmp_path, stop=2) == [143, 143]
    (stopped,) = {Checkpoints(tmp_path).steps()[-1]}
    assert 2 <= stopped <= 4
    train(4, tmp_path, stop=4)
    train(1, tmp_path)
    assert content(tmp_path) == content(alone)


@pytest.mark.parametrize("policy", ["stop", "skip"])
def test_a_loss_that_is_nan_on_one_rank_is_seen_by_all_in_the_same_step(policy, tmp_path):
    def work(ranks: Alone) -> int:
        made = shared(ranks, tmp_path, replace(SHARED, non_finite=policy), task=Poisoned(ranks, rank=1, after=5))
        try:
            made.train()
        except NonFiniteError as error:
            return error.exit_code if made.step == 3 else 70  # two micro-batches a step, numbered from 0
        return 0 if made.callback.notes else 71

    assert {each.code for each in together(2, work)} == ({6} if policy == "stop" else {0})


class Slow(CountingTask):
    """A task whose losses take long."""

    def loss(self, model: nn.Module, batch: Batch, *, smoothing: float = 0.0, step: int = 0) -> dict[str, Term]:
        time.sleep(0.05)
        return super().loss(model, batch, smoothing=smoothing, step=step)


def test_a_rank_that_is_slower_than_the_others_is_named_once(tmp_path, monkeypatch):
    monkeypatch.setattr(stragglers, "EVERY", 2)

    def work(ranks: Alone) -> int:
        task = Slow(SHARED.batch_tokens) if ranks.rank == 2 else None
        made = shared(ranks, tmp_path, SHARED, task=task)
        made.train()
        told = [note for note in made.callback.notes if "times as long" in note]
        named = f"step 2: rank 2 on {socket.gethostname()} computes "
        return int(len(told) != 1 or not told[0].startswith(named))

    assert {each.code for each in together(4, work)} == {0}


def test_a_signal_ends_a_rank_that_waits_for_the_others(tmp_path):
    def work() -> None:
        with joined_ranks("cpu", RankPlace(0, 2, 0, 2, 0)):
            raise AssertionError("there is no other rank")

    child = start(work, environment={STORE: str(tmp_path / "store"), "GLOO_SOCKET_IFNAME": "lo"})
    while not (tmp_path / "store").exists():
        time.sleep(0.01)
    time.sleep(0.5)
    child.send(signal.SIGINT)
    ended = child.wait()
    assert (ended.signal, ended.hung) == (signal.SIGINT, False)


def test_what_cannot_be_shared_out_is_refused(tmp_path):
    class Three(Alone):
        rank, size = 0, 3

    with pytest.raises(
        ConfigError,
        match=r"accumulate=4: 3 ranks .* allowed: 1, 2 or 4 ranks; .*--train.accumulate 3 --train.batch_tokens 21",
    ):
        shared(Three(), tmp_path)
    six = replace(SHARED, accumulate=6)
    with pytest.raises(ConfigError, match="need 1, 2, 4, 8, … ranks"):
        shared(Three(), tmp_path, six)
    model = nn.Sequential(nn.BatchNorm1d(3))
    with pytest.raises(ConfigError, match="3 ranks: 0 keeps running statistics"):
        Trainer(model, CountingTask(), replace(six, reduction="fast"), tmp_path, Silent(), Three())


@given(st.integers(0, 2).flatmap(lambda k: st.tuples(st.just(2**k), st.integers(1, 7))), st.integers(0, 2**31))
def test_the_sum_of_ranks_is_the_sum_of_one(shape, seed):
    ranks, each = shape
    values = torch.randn(ranks * each, 5, generator=torch.Generator().manual_seed(seed))

    def added(mine: torch.Tensor) -> torch.Tensor:
        weight = nn.Parameter(torch.ones(5))
        backpropagate_pairwise([weight], lambda number: (weight * mine[number]).sum().backward(), len(mine))
        assert weight.grad is not None
        return weight.grad

    parts = pairwise_sum([added(part) for part in values.split(each)])
    assert torch.equal(parts, added(values))
    assert torch.equal(parts, pairwise_sum(list(values)))


def test_masks_depend_on_seed_step_and_micro_batch_alone():
    random, drawn = Randomness(3, torch.device("cpu")), {}
    for step in (1, 0):
        for number in (2, 0, 1):
            random.at(step, number)
            drawn[step, number] = torch.rand(4)
    random = Randomness(3, torch.device("cpu"))
    for (step, number), before in drawn.items():
        random.at(step, number)
        assert torch.equal(torch.rand(4), before)
    assert len({tuple(each.tolist()) for each in drawn.values()}) == len(drawn)


def test_the_place_is_what_torchrun_tells():
    assert place_of({}) is None
    assert place_of({"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1"}) == RankPlace(3, 4, 1, 4, 0)
    for wrong in ({"RANK": "4", "WORLD_SIZE": "4"}, {"RANK": "x", "WORLD_SIZE": "4"}):
        with pytest.raises(ConfigError, match="RANK"):
            place_of(wrong)


def as_before(folder: Path, config: TrainConfig, version: int = 1) -> Trainer:
    """A trainer of a run that an older version began, with numpy's order.

    Of version 1 are one stream for dropout, and sums of gradients as they come.
    """
    made = shared(ALONE, folder, config)
    order = made.task.order
    made.task.order = OlderBlocks(order.total, order.context, order.rows, order.seed)
    made._read_from(made.cursor)
    made.version = version
    if version == 1:
        made.randomness = Randomness(config.seed, made.device, running=True)
    return made


@pytest.mark.parametrize("stop", [1, 3, 6, 7, 13])  # an epoch has 24 batches, a step takes four
def test_a_run_of_version_2_goes_on_in_the_order_of_numpy(tmp_path, stop):
    config = replace(SHARED, steps=16)
    as_before(tmp_path / "whole", config, 2).train()
    first = as_before(tmp_path / "parts", config, 2)
    for _ in range(stop):
        first.advance()
        if first.step % config.evaluate_every == 0:
            first._evaluate()
    first.save()
    later = shared(ALONE, tmp_path / "parts", config)
    assert later.resume()
    later.train()
    (found, _), (expected, _) = content(tmp_path / "parts"), content(tmp_path / "whole")
    assert json.loads(found["trainer.json"])["version"] == 2
    assert found == expected
    assert len(list(later.task.order.epoch(0))) == 24
    new = shared(ALONE, tmp_path / "new", config)
    new.train()
    assert json.loads(content(tmp_path / "new")[0]["trainer.json"])["version"] == 3
    assert content(tmp_path / "new")[1] != content(tmp_path / "whole")[1]


def test_a_run_of_an_older_version_goes_on_in_its_own_way(tmp_path):
    as_before(tmp_path / "whole", SHARED).train()
    as_before(tmp_path / "parts", replace(SHARED, steps=3)).train()
    assert b"version" not in content(tmp_path / "parts")[0]["trainer.json"]
    torch.rand(3)
    later = shared(ALONE, tmp_path / "parts")
    assert later.resume()
    later.train()
    assert content(tmp_path / "parts") == content(tmp_path / "whole")
    new = shared(ALONE, tmp_path / "new")
    new.train()
    assert content(tmp_path / "new")[1] != content(tmp_path / "whole")[1]

    class Two(Alone):
        rank, size = 0, 2

    with pytest.raises(ConfigError, match="begun by an older version"):
        shared(Two(), tmp_path / "parts").resume()


class Scored(CountingTask):
    """A task whose validation is shared out, in parts of which the number of ranks is no divisor."""

    def __init__(self, log: Path) -> None:
        super().__init__(SHARED.batch_tokens)
        self.log = log

    def validate(self, model: nn.Module, device: torch.device) -> float:
        def scored(row: int) -> tuple[float]:
            with self.log.open("a") as file:
                file.write(f"{row}\n")
            ids = torch.from_numpy(self.ids[8 * row : 8 * row + 9].astype("int64"))
            return (float(cross_entropy(model(ids[None, :8]), ids[None, 1:])),)

        return sum(each for (each,) in in_parts(iter(range(7)), scored)) / 56


def test_a_validation_is_shared_out_with_the_figure_of_one_process(tmp_path):
    config = replace(SHARED, steps=1)

    def work(folder: Path) -> Callable[[Alone], None]:
        return lambda ranks: shared(ranks, folder, config, task=Scored(folder / f"{ranks.rank}.txt")).train()

    for count in (1, 2, 4):
        (tmp_path / str(count)).mkdir()
        assert {each.code for each in together(count, work(tmp_path / str(count)))} == {0}
    assert losses(tmp_path / "1") == losses(tmp_path / "2") == losses(tmp_path / "4")
    assert (tmp_path / "2" / "1.txt").read_text().split() == ["1", "3", "5", "6"]
    assert (tmp_path / "4" / "3.txt").read_text().split() == ["3", "6"]


@pytest.mark.parametrize("count", [0, 1, 5, 8])
def test_values_and_texts_of_any_length_come_to_all_ranks_in_order(count):
    def values(n: int) -> torch.Tensor:
        return in_one(torch.rand(n % 3, generator=torch.Generator().manual_seed(n)), torch.tensor([[n, 2**40 + n]]))

    def texts(n: int) -> list[str]:
        return [f"é{n}\0\n"] * (n % 3)

    def work(ranks: Alone) -> int:
        with shared_by(ranks):
            found, told = values_in_parts(range(count), values), texts_in_parts(range(count), texts)
        same = all(torch.equal(each, values(n)) for n, each in enumerate(found))
        return int(not same or len(found) != count or told != [text for n in range(count) for text in texts(n)])

    assert {each.code for each in together(4, work)} == {0}


def test_a_part_that_is_nan_on_one_rank_is_an_error_on_all(tmp_path):
    def work(ranks: Alone) -> int:
        def scored(row: int) -> tuple[float]:
            if row == 1:
                raise NonFiniteError("here")
            return (1.0,)

        with shared_by(ranks if ranks.size > 1 else None), pytest.raises(NonFiniteError):
            in_parts(range(4), scored)
        return 0

    assert {each.code for each in together(2, work)} == {0}
