"""Training ViT-S/16 on a GPU against timm's, compiled: bf16, 256 images per step, the same loss and optimiser.

Both models run as CUDA graphs (torch.compile, mode="reduce-overhead"), so that launch overhead hardly matters.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any, cast

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headway.bench.peers import peer
from headway.bench.result import BenchReport, Options, Result
from headway.config import override
from headway.data.augment import Augmentation
from headway.data.autoaugment import AutoAugment
from headway.data.images import ImageStore
from headway.errors import ConfigError
from headway.models import VitConfig, build_model
from headway.presets import PRESETS
from headway.tasks.image_classification import Classification
from headway.tasks.image_classification.training import ClassificationTraining
from headway.training.callbacks import SilentCallback
from headway.training.trainer import Trainer

Steps = Callable[[], int]  # takes one or more steps -> how many
DECAY, RATE = 0.05, 1e-4
EVERYTHING = Augmentation(policy=AutoAugment(), erase=0.25, mix=0.5)  # as in the recipe for small data


@dataclass(frozen=True, slots=True, kw_only=True)
class VitGpuSizes:
    """The data, and how many steps of each contender in how many rounds."""

    images: int = 2048
    batch: int = 256
    steps: int = 10
    rounds: int = 5


SIZES = VitGpuSizes()


def run(options: Options, sizes: VitGpuSizes = SIZES) -> BenchReport:
    """Steps of the bare models, of our trainer, and the share of data loading in a step of it."""
    if not torch.cuda.is_available():
        raise ConfigError("vit-gpu needs a GPU, and torch finds no GPU")
    vision_transformer = peer("timm.models.vision_transformer")
    device = torch.device("cuda")
    recipe = PRESETS["vit-s16"].recipe()
    model = cast(VitConfig, recipe.model)
    theirs = vision_transformer.VisionTransformer(
        img_size=model.size[0], patch_size=model.patch, num_classes=model.classes, embed_dim=model.width,
        depth=model.layers, num_heads=model.heads,
    )  # fmt: skip
    images = torch.randn(sizes.batch, 3, *model.size, device=device)
    labels = torch.randint(model.classes, (sizes.batch,), device=device)
    bare = {
        "ours": _stepper(build_model(model), device, images, labels),
        "timm": _stepper(theirs, device, images, labels),
    }
    with tempfile.TemporaryDirectory() as folder:
        trainer = make_trainer(recipe, Path(folder), sizes)
        bare["trainer"] = lambda: len(trainer.next_steps())
        times = time_in_turns(bare, sizes)
        shares = loading_shares(trainer, times["trainer"], sizes)
    results = [
        Result("step_timm_compiled", times["ours"], times["timm"]),
        Result("training_timm_compiled", times["trainer"], times["timm"]),
    ]
    return BenchReport(results, {"images_per_second": round(sizes.batch / times["ours"]), **shares})


def _stepper(model: nn.Module, device: torch.device, images: Tensor, labels: Tensor) -> Steps:
    """A training step of a compiled model, without synchronising with the device."""
    model = model.to(device).train()
    optimiser = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=DECAY, fused=True)
    compiled = torch.compile(getattr(model, "logits", model), dynamic=False, mode="reduce-overhead")

    def step() -> int:
        torch.compiler.cudagraph_mark_step_begin()
        optimiser.zero_grad(set_to_none=True)
        with torch.autocast(device.type, torch.bfloat16):
            loss = F.cross_entropy(compiled(images), labels)
        loss.backward()
        optimiser.step()
        return 1

    return step


def make_trainer(recipe: Any, folder: Path, sizes: VitGpuSizes) -> Trainer:
    """A trainer on random images in the memory of the device."""
    random, size = np.random.default_rng(0), recipe.task.size
    store = ImageStore(
        random.integers(0, 256, (sizes.images, 3, size, size), dtype=np.uint8), random.integers(0, 1000, sizes.images)
    )
    classes = tuple(map(str, range(cast(VitConfig, recipe.model).classes)))
    task = ClassificationTraining(
        cast(Classification, recipe.task), classes, {"train": store}, batch_tokens=sizes.batch, seed=0, compiled=True
    )
    train = override(
        recipe.train,
        {
            "batch_tokens": sizes.batch, "accumulate": 1, "learning_rate": RATE, "optimiser": "adam-w",
            "optimiser.decay": DECAY, "clip": 0.0, "precision": "bf16", "compile": True, "device": "cuda",
        },
    )  # fmt: skip
    return Trainer(build_model(recipe.model), task, train, folder, SilentCallback())


def time_in_turns(calls: dict[str, Steps], sizes: VitGpuSizes) -> dict[str, float]:
    """The median seconds of a step, alternately; the first round compiles and warms up."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for round_ in range(sizes.rounds + 1):
        for name, call in calls.items():
            took = _seconds(call, sizes.steps)
            print(f"{name}: {1e3 * took:.2f} ms", file=sys.stderr)
            if round_:
                times[name].append(took)
    return {name: median(kept) for name, kept in times.items()}


def _seconds(call: Steps, steps: int) -> float:
    torch.cuda.synchronize()
    start, taken = time.perf_counter(), 0
    while taken < steps:
        taken += call()
    torch.cuda.synchronize()
    return (time.perf_counter() - start) / taken


def loading_shares(trainer: Trainer, step: float, sizes: VitGpuSizes) -> dict[str, float]:
    """The time of loading and augmenting a batch over that of a step, as in the preset and with all augmentations."""
    task = trainer.task
    assert isinstance(task, ClassificationTraining)
    indices, _ = next(trainer.batches)
    shares = {}
    for name, augment in (("recipe", task.config.augment), ("everything", EVERYTHING)):
        task.images.augment = augment
        task.config = replace(task.config, augment=augment)

        def load() -> int:
            (given,) = task.batch(indices).to(trainer.device).inputs
            assert given is not None
            task.images.prepared(given, 0)
            return 1

        _seconds(load, sizes.steps)  # compiles
        shares[f"loading_share_{name}"] = round(
            median(_seconds(load, sizes.steps) for _ in range(sizes.rounds)) / step, 4
        )
    return shares
