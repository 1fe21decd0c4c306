"""Training the base model of 2017 on a GPU in bf16, through headway's trainer, against transformers' Marian, compiled.

Batches of about 25,000 tokens of sentence pairs of like length, the same for both, with the preset's label smoothing
and dropout. The peer's batches are ready on the GPU; both compile for changing shapes.
"""

from __future__ import annotations

import itertools
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from headway.bench.gpu_turns import Steps, compare, plain_step
from headway.bench.peers import peer
from headway.bench.result import BenchReport, Options
from headway.bench.train_text import MarianTrainer, make_task
from headway.config import override
from headway.data.batching import Cursor
from headway.errors import ConfigError
from headway.models import build_model
from headway.presets import PRESETS
from headway.runs.config import RunConfig
from headway.tasks.training_task import IGNORED, Batch
from headway.training.callbacks import SilentCallback
from headway.training.trainer import Trainer

BATCHES = 24  # of the peer, one after the other
_START = Cursor()


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainBaseSizes:
    """How many steps of each contender in how many rounds."""

    steps: int = BATCHES
    rounds: int = 3


SIZES = TrainBaseSizes()


def run(options: Options, sizes: TrainBaseSizes = SIZES) -> BenchReport:
    """Seconds of a target token of both, alternately, and their peak memory."""
    if not torch.cuda.is_available():
        raise ConfigError("train-base needs a GPU, and torch finds no GPU")
    transformers = peer("transformers")
    config = PRESETS["transformer-base"].recipe()
    train = override(
        config.train,
        {"steps": 10**6, "evaluate_every": 10**6, "save_every": 10**6, "compile": True, "device": "cuda"},
    )
    config = replace(config, train=train)
    task = make_task(config, options)
    batches = [task.batch(indices) for indices, _ in itertools.islice(task.order.after(_START), BATCHES)]
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(build_model(config.model), task, train, Path(folder), SilentCallback())
        makers = {
            "ours": lambda: lambda: len(trainer.next_steps()),
            "transformers": lambda: _peer(transformers, config, batches),
        }
        tokens = dict.fromkeys(makers, sum(batch.count for batch in batches) / len(batches))
        return compare(makers, steps=sizes.steps, rounds=sizes.rounds, tokens=tokens)


def _peer(transformers: Any, config: RunConfig, batches: list[Batch]) -> Steps:
    """transformers' model on these batches, one after the other."""
    model = MarianTrainer(transformers, config).model.cuda()
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-4, fused=True)
    ready = itertools.cycle([batch.to(torch.device("cuda")) for batch in batches])

    @torch.compile(dynamic=True)
    def loss_of(source: Tensor, target: Tensor, lengths: Tensor, targets: Tensor) -> Tensor:
        mask = (torch.arange(source.shape[1], device="cuda") < lengths.unsqueeze(-1)).long()
        logits = model(input_ids=source, attention_mask=mask, decoder_input_ids=target, use_cache=False).logits
        return F.cross_entropy(
            logits.flatten(0, 1), targets.flatten(), ignore_index=IGNORED,
            label_smoothing=config.train.label_smoothing,
        )  # fmt: skip

    def loss() -> Tensor:
        batch = next(ready)
        source, target, lengths, _ = batch.inputs
        assert source is not None
        assert target is not None
        assert lengths is not None
        found: Tensor = loss_of(source, target, lengths, batch.targets)
        return found

    return plain_step(model, optimiser, loss, config.train.clip)
