"""Steps taken as a CUDA graph equal those taken one by one: eagerly on a CPU, replayed on a GPU."""

from __future__ import annotations

import math

import pytest
import torch

from headway.data.augment import Augmentation
from headway.data.autoaugment import AutoAugment
from headway.data.images import ImageStore
from headway.data.synthetic.shapes import SHAPES, scenes
from headway.errors import NonFiniteError
from headway.models import VitConfig, build_model
from headway.nn.dropout import StochasticDepth
from headway.nn.patches import Shifted
from headway.tasks.image_classification import Classification
from headway.tasks.image_classification.training import ClassificationTraining
from headway.training import trainer as training
from headway.training.config import TrainConfig
from headway.training.cuda_graph import MAX_STEPS, WARMUP_STEPS, unsupported_reason
from headway.training.log import LOG, read_log
from headway.training.optimisers import AdamW, Sgd
from headway.training.randomness import Randomness
from headway.training.schedules import Cosine
from headway.training.trainer import Trainer
from tests.training.small import CountingTask, Silent

CPU = torch.device("cpu")
FULL = Augmentation(policy=AutoAugment(), erase=0.25, mix=0.5)
cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")


def store(count: int, seed: int) -> ImageStore:
    drawn = scenes(count, size=16, seed=seed)
    return ImageStore(drawn.pixels, drawn.shapes)


@pytest.fixture
def make(monkeypatch):
    """A function that builds a trainer.

    With `graphed`, the trainer of `train.compile` on a GPU, that is with CudaGraphSteps, but nothing is compiled.
    """

    def build(folder, device: str = "cpu", *, graphed: bool, **settings) -> Trainer:
        with monkeypatch.context() as patch:
            if graphed:
                patch.setattr(training, "unsupported_reason", lambda *given: None)
                patch.setattr(training, "compile_features", lambda *given, **options: None)
            return made(folder, device, compile=graphed, **settings)

    return build


def made(folder, device: str, *, compile: bool, **settings) -> Trainer:
    """A trainer of a small SL-ViT with every augmentation, stochastic depth and two micro-batches a step."""
    config = TrainConfig(
        **{
            "steps": 2 * WARMUP_STEPS + 4, "batch_tokens": 8, "accumulate": 2, "evaluate_every": 5, "save_every": 5,
            "device": device, "label_smoothing": 0.1, "learning_rate": 3e-3, "schedule": Cosine(warmup=2),
            "optimiser": AdamW(decay=0.05, decays="all"), "ema": 0.9, "compile": compile,
        }
        | settings
    )  # fmt: skip
    splits = {"train": store(40, 0), "val": store(20, 1)}
    task = ClassificationTraining(Classification(size=16, augment=FULL), SHAPES, splits, batch_tokens=8, seed=3)
    model = build_model(
        VitConfig(
            classes=len(SHAPES), image=16, patch=4, patches=Shifted(), width=32, layers=2, heads=2, inner=64,
            local=True, qkv_bias=False, start="small-data",
            stochastic_depth=StochasticDepth(rate=0.2, growth="constant"),
        )
    )  # fmt: skip
    folder.mkdir(exist_ok=True)
    trainer = Trainer(model, task, config, folder, Silent())
    trainer.randomness = Randomness(config.seed, trainer.device, running=True)  # as a graph draws: it cannot be seeded
    return trainer


def same(one: Trainer, other: Trainer, *, atol: float, losses: bool = True) -> None:
    for name, tensor in one.model.state_dict().items():
        torch.testing.assert_close(other.model.state_dict()[name], tensor, atol=atol, rtol=0)
        torch.testing.assert_close(other.ema[name], one.ema[name], atol=atol, rtol=0)
    assert (one.step, one.cursor) == (other.step, other.cursor)
    if not losses:
        return
    seen = [[entry["loss"] for entry in read_log(each.run / LOG) if "loss" in entry] for each in (one, other)]
    assert seen[0] == pytest.approx(seen[1], abs=10 * atol)


def trained(build, *args, **settings) -> Trainer:
    """Built and trained at once: a trainer seeds the generator of dropout when it is built."""
    trainer = build(*args, **settings)
    trainer.train()
    return trainer


def test_graphed_steps_equal_eager_ones(tmp_path, make):
    plain = trained(make, tmp_path / "a", graphed=False)
    drawn = torch.get_rng_state()
    graphed = trained(make, tmp_path / "b", graphed=True)
    same(plain, graphed, atol=1e-6)
    assert torch.equal(torch.get_rng_state(), drawn)
    logs = [read_log(each.run / LOG) for each in (plain, graphed)]
    assert [sorted(entry) for entry in logs[0]] == [sorted(entry) for entry in logs[1]]
    assert [entry["step"] for entry in logs[0]] == [entry["step"] for entry in logs[1]]


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=cuda)])
def test_a_resumed_run_equals_the_uninterrupted_one(tmp_path, device, make):
    whole = trained(make, tmp_path / "a", device, graphed=True, steps=20)
    parts = make(tmp_path / "b", device, graphed=True, steps=20)
    assert parts.graphed is not None
    while parts.step < 10:
        parts.next_steps()
    parts.save()
    again = make(tmp_path / "b", device, graphed=True, steps=20)
    assert again.resume()
    assert again.step == 10
    again.train()
    same(whole, again, atol=0 if device == "cpu" else 1e-5, losses=False)


def test_steps_without_synchronising_end_at_a_checkpoint(tmp_path, make):
    trainer = make(tmp_path, graphed=True, steps=2 * MAX_STEPS, evaluate_every=MAX_STEPS + 3, save_every=5)
    assert trainer.graphed is not None
    counts = [len(trainer.next_steps()) for _ in range(3)]
    assert counts == [5, 5, 5]
    assert trainer.step == 15


def test_a_step_that_is_not_finite_leaves_the_weights_unchanged(tmp_path, monkeypatch, make):
    skips = make(tmp_path / "a", graphed=True, non_finite="skip", accumulate=1)
    loss, calls = skips.task.loss, iter(range(100))

    def poisoned(*args, **kwargs):
        terms = loss(*args, **kwargs)
        if next(calls) == 1:
            terms["class"].total.data *= math.nan
        return terms

    monkeypatch.setattr(skips.task, "loss", poisoned)
    entries = skips.next_steps()
    assert [math.isfinite(entry["loss"]) for entry in entries] == [True, False, True, True, True]
    assert all(p.isfinite().all() for p in skips.model.parameters())
    assert "skipped" in skips.callback.notes[0]
    stops = make(tmp_path / "b", graphed=True, accumulate=1)
    calls, loss = iter(range(100)), stops.task.loss
    monkeypatch.setattr(stops.task, "loss", poisoned)
    with pytest.raises(NonFiniteError, match="step 2: loss nan"):
        stops.next_steps()


def test_what_cannot_be_recorded_says_why(tmp_path, make):
    trainer = make(tmp_path, graphed=False)
    gpu = torch.device("cuda")
    assert unsupported_reason(trainer.task, trainer.config, trainer.optimisers, gpu, trainer.model) is None
    assert "device cpu" in unsupported_reason(trainer.task, trainer.config, trainer.optimisers, CPU, trainer.model)
    assert "differ in shape" in unsupported_reason(
        CountingTask(), trainer.config, trainer.optimisers, gpu, trainer.model
    )
    back = TrainConfig(non_finite="rollback")
    assert "rollback" in unsupported_reason(trainer.task, back, trainer.optimisers, gpu, trainer.model)
    momentum = training.build_optimisers(Sgd(), trainer.model)
    assert "learning rate" in unsupported_reason(trainer.task, trainer.config, momentum, gpu, trainer.model)


@cuda
@pytest.mark.parametrize("compile", [False, True])
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_replayed_steps_equal_eager_ones(tmp_path, compile, precision, make):
    settings = {"steps": 30, "evaluate_every": 11, "save_every": 13, "precision": precision}
    plain = trained(make, tmp_path / "a", "cuda", graphed=False, **settings)
    if compile:
        replayed = trained(made, tmp_path / "b", "cuda", compile=True, **settings)
    else:
        replayed = trained(make, tmp_path / "b", "cuda", graphed=True, **settings)
    assert replayed.graphed is not None
    assert replayed.graphed.graph is not None
    if compile:  # stochastic depth draws other numbers when compiled
        assert replayed.step == plain.step
        assert all(p.isfinite().all() for p in replayed.model.parameters())
    else:
        same(plain, replayed, atol=1e-5 if precision == "fp32" else 5e-3)
