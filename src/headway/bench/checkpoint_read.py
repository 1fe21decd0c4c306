"""Reading the weights of a checkpoint, verified, against reading the same file into memory: GPT-2 124M, 498 MB."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import load_file

from headway.bench.result import BenchReport, Options, compare
from headway.models import GptConfig, build_model
from headway.training.checkpoints import MODEL, Checkpoints

GPT2 = GptConfig(vocab=50257, context=1024, width=768, layers=12, heads=12)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadSizes:
    """The model whose checkpoint is read, and how often."""

    model: GptConfig = GPT2
    rounds: int = 9


SIZES = ReadSizes()


def run(options: Options, sizes: ReadSizes = SIZES) -> BenchReport:
    """Checksums, finite weights and all, against safetensors' `load_file` with the tensors copied out of the file.

    Verified weights stay where they are, mapped into memory: they have been read in full, and are not copied.
    """
    with tempfile.TemporaryDirectory() as place:
        checkpoints = Checkpoints(Path(place))
        weights = {name: tensor.clone() for name, tensor in build_model(sizes.model).state_dict().items()}
        checkpoints.save(1, weights, {"random": torch.get_rng_state()}, {"step": 1})
        file = checkpoints.path(1) / MODEL

        def plain() -> None:
            {name: tensor.clone() for name, tensor in load_file(file).items()}

        result = compare("checkpoint_read_plain", checkpoints.weights, plain, rounds=sizes.rounds)
        bare = compare("bytes", checkpoints.weights, file.read_bytes, rounds=sizes.rounds)
        size = file.stat().st_size
    figures = {
        "megabytes": round(size / 1e6, 1),
        "verified_seconds": round(result.ours, 4),
        "plain_seconds": round(result.peer, 4),
        "times_a_plain_read": round(result.ours / result.peer, 3),
        "times_the_bytes_alone": round(bare.ours / bare.peer, 3),
    }
    return BenchReport([result], figures)
