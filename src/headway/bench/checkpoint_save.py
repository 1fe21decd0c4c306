"""How long a save stops training: `train.save_async`, whose thread writes, against a save that is waited for."""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import torch

from headway.bench.result import BenchReport, Options, Result
from headway.models import GptConfig, build_model
from headway.training.best import BestCheckpoint
from headway.training.checkpoint_writer import CheckpointWriter, TrainingState
from headway.training.checkpoints import Checkpoints
from headway.training.config import TrainConfig
from headway.training.optimisers import MEANS
from headway.training.ranks import ALONE

GPT = GptConfig(vocab=16384, context=1024, width=512, layers=6, heads=8)


@dataclass(frozen=True, slots=True, kw_only=True)
class SaveSizes:
    """The model that is saved with the means of AdamW, and how often."""

    model: GptConfig = GPT
    rounds: int = 7


SIZES = SaveSizes()


def run(options: Options, sizes: SaveSizes = SIZES) -> BenchReport:
    """Save by turns with and without the thread; the thread is waited for between two saves, which is not counted."""
    model = build_model(sizes.model)
    weights = {name: tensor.detach() for name, tensor in model.state_dict().items()}
    state = {f"optimiser.0.{name}.{mean}": torch.randn_like(w) for name, w in weights.items() for mean in MEANS}
    stopped: dict[bool, list[float]] = {True: [], False: []}
    written: list[float] = []
    with tempfile.TemporaryDirectory() as place:
        writers = {
            beside: CheckpointWriter(
                Checkpoints(Path(place) / str(beside)), TrainConfig(save_async=beside, keep=1), ALONE, sharded=False
            )
            for beside in stopped
        }
        for step in range(1, sizes.rounds + 2):
            facts = {"step": step, **BestCheckpoint().to_json()}
            for beside, writer in writers.items():
                began = time.perf_counter()
                copied = weights if beside else {name: tensor.clone() for name, tensor in weights.items()}
                writer.save(lambda: TrainingState(step, copied, state, facts, BestCheckpoint()))  # noqa: B023
                seconds = time.perf_counter() - began
                writer.wait()
                if step > 1:  # the first round warms up
                    stopped[beside].append(seconds)
                    written += [time.perf_counter() - began] if beside else []
    result = Result("save_async_stop", median(stopped[True]), median(stopped[False]))
    size = sum(tensor.numel() * tensor.element_size() for tensor in (*weights.values(), *state.values()))
    figures = {
        "megabytes": round(size / 1e6, 1),
        "stopped_async_seconds": round(result.ours, 4),
        "stopped_sync_seconds": round(result.peer, 4),
        "async_on_disk_after_seconds": round(median(written), 4),
    }
    return BenchReport([result], figures)
