"""Training ViT-S/16 on a GPU beside timm's, compiled: bf16, 256 images a step, the same loss and optimiser.

torch.compile replays both models' passes as CUDA graphs: how fast a machine launches kernels counts for little.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headway.bench.peers import peer
from headway.bench.result import Options, Report, Result
from headway.bench.train_text import Quiet
from headway.config import override
from headway.data.augment import Augmentation
from headway.data.autoaugment import AutoAugment
from headway.data.images import ImageStore
from headway.errors import ConfigError
from headway.models import Vit, VitConfig, build_model
from headway.presets import PRESETS
from headway.tasks.image_classification import Classification
from headway.tasks.image_classification.training import ClassificationTraining
from headway.training.trainer import Trainer

Steps = Callable[[], int]  # takes one step or some, and says how many
IMAGES, BATCH = 2048, 256
STEPS, ROUNDS = 10, 5
DECAY, RATE = 0.05, 1e-4
EVERYTHING = Augmentation(policy=AutoAugment(), erase=0.25, mix=0.5)  # as the recipe for small data has it


def run(options: Options) -> Report:
    """Steps of the bare models in turns; a whole step of our trainer beside timm's bare one; what loading takes."""
    if not torch.cuda.is_available():
        raise ConfigError("vit-gpu needs a GPU, torch sees none")
    vision_transformer = peer("timm.models.vision_transformer")
    device = torch.device("cuda")
    recipe = PRESETS["vit-s16"].recipe()
    model = recipe.model
    assert isinstance(model, VitConfig)
    theirs = vision_transformer.VisionTransformer(
        img_size=model.size[0], patch_size=model.patch, num_classes=model.classes, embed_dim=model.width,
        depth=model.layers, num_heads=model.heads,
    )  # fmt: skip
    images = torch.randn(BATCH, 3, *model.size, device=device)
    labels = torch.randint(model.classes, (BATCH,), device=device)
    bare = {
        "ours": _stepper(build_model(model), device, images, labels),
        "timm": _stepper(theirs, device, images, labels),
    }
    with tempfile.TemporaryDirectory() as folder:
        trainer = _trainer(recipe, Path(folder))
        bare["trainer"] = lambda: len(trainer.go_on())
        times = _in_turns(bare)
        shares = _shares(trainer, times["trainer"])
    results = [
        Result("step_timm_compiled", times["ours"], times["timm"]),
        Result("training_timm_compiled", times["trainer"], times["timm"]),
    ]
    return Report(results, {"images_per_second": round(BATCH / times["ours"]), **shares})


def _stepper(model: nn.Module, device: torch.device, images: Tensor, labels: Tensor) -> Steps:
    """Forward, loss, backward and update of a compiled model; nothing waits for the device."""
    model = model.to(device).train()
    optimiser = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=DECAY, fused=True)
    compiled = torch.compile(model.logits if isinstance(model, Vit) else model, dynamic=False, mode="reduce-overhead")

    def step() -> int:
        torch.compiler.cudagraph_mark_step_begin()
        optimiser.zero_grad(set_to_none=True)
        with torch.autocast(device.type, torch.bfloat16):
            loss = F.cross_entropy(compiled(images), labels)
        loss.backward()
        optimiser.step()
        return 1

    return step


def _trainer(recipe: Any, folder: Path) -> Trainer:
    """Our trainer on images in the device's memory, flipped and normalised there."""
    random, size = np.random.default_rng(0), recipe.task.size
    store = ImageStore(
        random.integers(0, 256, (IMAGES, 3, size, size), dtype=np.uint8), random.integers(0, 1000, IMAGES)
    )
    assert isinstance(recipe.task, Classification)
    classes = tuple(map(str, range(recipe.model.classes)))
    task = ClassificationTraining(recipe.task, classes, {"train": store}, batch_tokens=BATCH, seed=0, compiled=True)
    train = override(
        recipe.train,
        {
            "batch_tokens": BATCH, "accumulate": 1, "learning_rate": RATE, "optimiser": "adam-w",
            "optimiser.decay": DECAY, "clip": 0.0, "precision": "bf16", "compile": True, "device": "cuda",
        },
    )  # fmt: skip
    return Trainer(build_model(recipe.model), task, train, folder, Quiet())


def _in_turns(calls: dict[str, Steps]) -> dict[str, float]:
    """The median seconds of a step, in turns of at least STEPS each; the first round compiles and warms up."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for round_ in range(ROUNDS + 1):
        for name, call in calls.items():
            took = _seconds(call)
            print(f"{name}: {1e3 * took:.2f} ms", file=sys.stderr)
            if round_:
                times[name].append(took)
    return {name: median(kept) for name, kept in times.items()}


def _seconds(call: Steps) -> float:
    torch.cuda.synchronize()
    start, taken = time.perf_counter(), 0
    while taken < STEPS:
        taken += call()
    torch.cuda.synchronize()
    return (time.perf_counter() - start) / taken


def _shares(trainer: Trainer, step: float) -> dict[str, float]:
    """What choosing, copying and augmenting a batch takes of a step, by the preset's recipe and with everything on."""
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

        _seconds(load)  # compiles
        shares[f"loading_share_{name}"] = round(median(_seconds(load) for _ in range(ROUNDS)) / step, 4)
    return shares
