"""Training GPT-2 124M with `train.shard full` on one GPU (FSDP2, a mesh of one, NCCL) against the same without shards.

Both are headway's trainer in bf16 with `train.compile`, on the same data from the same weights. What shards cost on one
GPU is what FSDP does around each block, and that a step is not recorded as a CUDA graph.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from headway.bench.gpu_turns import Steps, compare
from headway.bench.result import BenchReport, Options
from headway.bench.train_gpt import SIZES, TrainGptSizes, make_trainer
from headway.errors import ConfigError
from headway.training.ranks import ALONE, STORE, Alone, RankPlace, joined_ranks
from headway.training.trainer import Trainer

CURVE = 10  # steps of the two curves
SEED = 0  # of the weights


def run(options: Options, sizes: TrainGptSizes = SIZES) -> BenchReport:
    """Seconds of a step of both, alternately, their peak memory, and how far their losses differ."""
    if not torch.cuda.is_available():
        raise ConfigError("shards-gpu needs a GPU, and torch finds no GPU")
    with tempfile.TemporaryDirectory() as folder, _one_rank(Path(folder)) as rank:

        def made(ranks: Alone, **train: object) -> Trainer:
            torch.manual_seed(SEED)
            return make_trainer(Path(folder), sizes, ranks=ranks, **train)

        figures = {}
        for precision in ("fp32", "bf16"):
            curves = [
                _curve(made(ranks, compile=False, precision=precision, shard=shard))
                for ranks, shard in ((rank, "full"), (ALONE, "none"))
            ]
            figures[f"curve_{precision}"] = max(abs(ours - plain) / plain for ours, plain in zip(*curves, strict=True))

        def steps(ranks: Alone, shard: str) -> Steps:
            trainer = made(ranks, shard=shard)
            return lambda: len(trainer.next_steps())

        makers = {"shards": lambda: steps(rank, "full"), "whole": lambda: steps(ALONE, "none")}
        tokens = dict.fromkeys(makers, sizes.rows * sizes.context)
        report = compare(makers, steps=sizes.steps, rounds=sizes.rounds, tokens=tokens)
        return BenchReport(report.results, figures | report.figures)


def _curve(trainer: Trainer) -> list[float]:
    return [trainer.advance()["loss"] for _ in range(CURVE)]


@contextmanager
def _one_rank(folder: Path) -> Iterator[Alone]:
    """This process as the only rank of a process group."""
    os.environ[STORE] = str(folder / "store")
    try:
        with joined_ranks("cuda", RankPlace(rank=0, size=1, local=0, beside=1, attempt=0)) as ranks:
            yield ranks
    finally:
        del os.environ[STORE]
