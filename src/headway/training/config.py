"""The `train` section of a run's config."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from headway.errors import ConfigError
from headway.nn.lora import Lora
from headway.training.optimisers import AdamW, Optimiser
from headway.training.ranges import expect_not_negative, expect_share, expect_whole
from headway.training.schedules import Constant, Schedule


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainConfig:
    """Optimisation, evaluation and checkpointing of a training run."""

    steps: int = 1000  # updates of the weights
    batch_tokens: int = 4096  # tokens (image tasks: images) in one micro-batch
    accumulate: int = 1  # micro-batches a step; their sum is divided once, so k of them equal one large batch
    learning_rate: float = 1e-3  # at the schedule's peak
    optimiser: Optimiser = AdamW()  # how gradients become updates, with its settings
    schedule: Schedule = Constant()  # how the learning rate changes over the steps, with its settings
    clip: float = 1.0  # the largest norm of a step's gradient; 0 leaves it alone
    label_smoothing: float = 0.0  # ε spread over all classes, the right one included
    # how the gradients of micro-batches are added. exact: in one order on 1, 2, 4, … ranks, for the same weights to the
    # bit; fast: as they come; auto: exact on a CPU, fast on a GPU
    reduction: Literal["auto", "exact", "fast"] = "auto"
    # what each rank holds of weights, gradients and optimiser state. none: all of it; full: its share (FSDP); node: its
    # share among the ranks of its machine
    shard: Literal["none", "full", "node"] = "none"
    recompute: Literal["none", "blocks"] = "none"  # blocks: activations inside blocks are computed again in backward
    seed: int = 0  # of the initial weights, the order of the data and dropout
    device: Literal["auto", "cpu", "cuda"] = "auto"  # auto takes a GPU where there is one
    precision: Literal["fp32", "bf16"] = "fp32"  # bf16: autocast to bfloat16; weights stay in fp32
    compile: bool = False  # use torch.compile, and CUDA graphs where the task allows them
    evaluate_every: int = 250  # steps between validations
    save_every: int = 250  # steps between checkpoints
    # a thread writes checkpoints while training goes on, from a copy in host memory: as much again as weights and
    # optimiser state
    save_async: bool = False
    keep: int = 3  # checkpoints, beside the best
    # an input whose attention is kept at each evaluation and at steps 1, 2, 4, 8 …, for `headway look` to show over
    # training; for a model that reads a source also "SOURCE ||| TARGET", else it is shown with what it writes itself
    keep_looks: str = ""
    keep_optimiser: bool = False  # keep the optimiser state in all checkpoints, not only in the newest two
    average: int = 0  # the last n checkpoints make the final model; 0 takes the best
    ema: float = 0.0  # decay of a running mean of the weights, which is then what is evaluated and saved as the model
    freeze: tuple[str, ...] = ()  # parameters that do not train, as patterns: *embedding*, stack.blocks.0.*
    layer_decay: float = 1.0  # the learning rate's factor from each block to the one below it; 1: all have the same
    lora: Lora | None = None  # train low-rank adapters of the run that --init names; none: all weights
    patience: int = 0  # evaluations without a better one before training stops; 0 goes on
    # on a NaN or infinite loss: stop, skip the step, or roll back to the last checkpoint
    non_finite: Literal["stop", "skip", "rollback"] = "stop"

    def __post_init__(self) -> None:
        for name in ("steps", "batch_tokens", "accumulate", "evaluate_every", "save_every", "keep"):
            expect_whole(name, getattr(self, name), least=1)
        for name in ("seed", "average", "patience"):
            expect_whole(name, getattr(self, name), least=0)
        for name in ("label_smoothing", "ema"):
            expect_share(name, getattr(self, name))
        for name in ("learning_rate", "clip"):
            expect_not_negative(name, getattr(self, name))
        if self.reduction == "exact" and self.shard != "none":
            raise ConfigError(f"train.reduction=exact with train.shard={self.shard}, allowed with shards: auto, fast")
        if not 0.0 < self.layer_decay <= 1.0:
            raise ConfigError(f"train.layer_decay={self.layer_decay}, allowed: above 0, at most 1")
        if self.average > self.keep:
            raise ConfigError(f"train.average={self.average} needs as many checkpoints: train.keep={self.keep}")

    def exact_on(self, device: str) -> bool:
        """Whether gradients are added in one order for any number of ranks, on a device of this type."""
        automatic = self.reduction == "auto" and device == "cpu" and self.shard == "none"
        return self.reduction == "exact" or automatic
