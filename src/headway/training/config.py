"""The `train` section of a run's config."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from headway.errors import ConfigError
from headway.training.optimisers import AdamW, Optimiser
from headway.training.schedules import Constant, Schedule


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainConfig:
    """Optimisation, evaluation and checkpointing of a training run."""

    steps: int = 1000
    batch_tokens: int = 4096  # in one micro-batch
    accumulate: int = 1  # micro-batches per step; their sum is divided once, so k of them equal one large batch
    learning_rate: float = 1e-3
    optimiser: Optimiser = AdamW()
    schedule: Schedule = Constant()
    clip: float = 1.0  # maximum gradient norm; 0: no clipping
    label_smoothing: float = 0.0  # ε spread over all classes, the target included
    seed: int = 0
    device: Literal["auto", "cpu", "cuda"] = "auto"
    precision: Literal["fp32", "bf16"] = "fp32"
    compile: bool = False
    evaluate_every: int = 250
    save_every: int = 250
    keep: int = 3  # newest checkpoints to keep, besides the best
    average: int = 0  # the final model is the mean of the last n checkpoints; 0: the best one
    ema: float = 0.0  # decay of the exponential moving average that is evaluated and saved as the model; 0: none
    patience: int = 0  # evaluations without improvement before training stops; 0: never
    non_finite: Literal["stop", "skip", "rollback"] = "stop"

    def __post_init__(self) -> None:
        for name in ("steps", "batch_tokens", "accumulate", "evaluate_every", "save_every", "keep"):
            if getattr(self, name) < 1:
                raise ConfigError(f"train.{name}={getattr(self, name)}, allowed: 1 and above")
        for name in ("label_smoothing", "ema"):
            if not 0.0 <= getattr(self, name) < 1.0:
                raise ConfigError(f"train.{name}={getattr(self, name)}, allowed: at least 0 and below 1")
        if self.average > self.keep:
            raise ConfigError(f"train.average={self.average} needs as many checkpoints: train.keep={self.keep}")
