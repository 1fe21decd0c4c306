"""A training run small enough to be killed a hundred times: a two-layer GPT with dropout on a made-up text."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from headway.data.batching import Blocks, Indices
from headway.models import GptConfig, build_model
from headway.tasks.training_task import Batch, Term, cross_entropy, next_token_loss
from headway.training.config import TrainConfig
from headway.training.log import LOG, read_log
from headway.training.schedules import Cosine
from headway.training.trainer import Trainer

MODEL = GptConfig(vocab=11, context=8, width=16, layers=2, heads=2, dropout=0.2)
TRAIN = TrainConfig(
    steps=12, batch_tokens=32, accumulate=2, learning_rate=0.01, schedule=Cosine(warmup=3), evaluate_every=4,
    save_every=3, keep=2, device="cpu", ema=0.9,
)  # fmt: skip


class Silent:
    """A callback that keeps its notes."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.seen: list[Any] = []

    def step(self, entry: dict[str, Any]) -> None:
        pass

    def evaluated(self, entry: dict[str, Any], samples: list[str]) -> None:
        pass

    def note(self, text: str) -> None:
        self.notes.append(text)

    def preparing(self, what: str, done: int, total: int) -> None:
        pass


class CountingTask:
    """Predict the next token of a text with some order in it; remembers which blocks it handed out."""

    fixed_shapes = False

    def __init__(self, batch_tokens: int = 32, seed: int = 0) -> None:
        random = np.random.default_rng(0)
        steps = random.choice([1, 2, 5], p=[0.7, 0.2, 0.1], size=400)
        self.ids = np.cumsum(steps) % MODEL.vocab
        self.order = Blocks(len(self.ids), MODEL.context, max(batch_tokens // MODEL.context, 1), seed)
        self.handed: list[list[int]] = []
        self.scored = 0
        self.poison: int | None = None  # the number of a batch whose loss is not a number

    def batch(self, indices: Indices) -> Batch:
        self.handed.append(indices.tolist())
        ids = torch.from_numpy(self.ids[indices[:, None] + np.arange(MODEL.context + 1)].astype(np.int64))
        return Batch((ids[:, :-1],), ids[:, 1:].contiguous(), ids[:, 1:].numel())

    def loss(self, model: nn.Module, batch: Batch, *, smoothing: float = 0.0, step: int = 0) -> dict[str, Term]:
        total = next_token_loss(model, batch, smoothing)
        self.scored += 1
        if self.scored - 1 == self.poison:
            total = total * float("nan")
        return {"next": Term(total, batch.count)}

    @torch.no_grad()
    def validate(self, model: nn.Module, device: torch.device) -> float:
        ids = torch.from_numpy(self.ids[:65].astype(np.int64))
        return float(cross_entropy(model(ids[:64].view(8, 8)), ids[1:].view(8, 8))) / 64

    def samples(self, model: nn.Module, device: torch.device) -> list[str]:
        return [str(torch.rand(1).item())]  # draws from the default stream, which must not disturb dropout


def trainer(folder: Path, config: TrainConfig = TRAIN, task: CountingTask | None = None) -> Trainer:
    folder.mkdir(parents=True, exist_ok=True)
    return Trainer(
        build_model(MODEL, seed=config.seed), task or CountingTask(config.batch_tokens), config, folder, Silent()
    )


def state_hash(made: Trainer) -> str:
    """SHA-256 over parameters, EMA, optimiser, cursor, step and random state, in a fixed order."""
    digest = hashlib.sha256()
    for name, tensor in sorted(made.model.state_dict().items()) + sorted(made.ema.items()):
        digest.update(name.encode() + tensor.detach().numpy().tobytes())
    for optimiser in made.optimisers:
        for key, state in sorted(optimiser.state_dict()["state"].items()):
            for name, value in sorted(state.items()):
                digest.update(f"{key}{name}".encode() + torch.as_tensor(value).numpy().tobytes())
    digest.update(torch.get_rng_state().numpy().tobytes())
    digest.update(f"{made.step} {made.cursor} {made.best} {made.stale}".encode())
    return digest.hexdigest()


def losses(folder: Path) -> list[tuple[Any, ...]]:
    """The log without its clock."""
    return [(entry["step"], entry.get("loss"), entry.get("val_loss")) for entry in read_log(folder / LOG)]
