"""Importing a model folder against copying, hashing and syncing the same bytes: GPT-2 124M with random weights."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from itertools import count
from pathlib import Path

import torch
from tokenizers import Tokenizer, models

from headway.bench.result import BenchReport, Options, compare
from headway.interop.families import FAMILIES
from headway.interop.family import GenerationTokens, hf_shapes
from headway.interop.model_folder import CONFIG, WEIGHTS
from headway.interop.safetensors_writer import chunks_of
from headway.models import GptConfig
from headway.runs.import_folder import import_folder

MODEL = GptConfig(vocab=50257, context=1024, width=768, layers=12, heads=12)
ROUNDS = 5


def run(options: Options) -> BenchReport:
    """The whole import (header, tokenizer, weights, manifest, self-check) against a copy of the weights alone."""
    with tempfile.TemporaryDirectory() as place:
        folder, numbers = Path(place) / "gpt2", count()
        _write(folder)

        def ours() -> None:
            run = Path(place) / f"run-{next(numbers)}"
            import_folder(folder, run)
            shutil.rmtree(run)

        result = compare("import_copy", ours, lambda: _copied(folder / WEIGHTS, Path(place) / "copy"), rounds=ROUNDS)
        size = (folder / WEIGHTS).stat().st_size
    figures = {"megabytes": round(size / 1e6, 1), "megabytes_per_second": round(size / 1e6 / result.ours)}
    return BenchReport([result], figures)


def _copied(source: Path, copy: Path) -> None:
    shutil.copyfile(source, copy)
    with copy.open("rb") as file:
        hashlib.file_digest(file, "sha256")
        os.fsync(file.fileno())
    copy.unlink()


def _write(folder: Path) -> None:
    """A folder in Hugging Face format: GPT-2's tensors under their names, and a vocabulary of its size."""
    folder.mkdir()
    family = FAMILIES["gpt2"]
    config = {"model_type": family.name, **family.write(MODEL, GenerationTokens())}
    (folder / CONFIG).write_text(json.dumps(config))
    vocab = {f"token-{index}": index for index in range(MODEL.vocab)}
    (folder / "tokenizer.json").write_text(Tokenizer(models.WordLevel(vocab, unk_token="token-0")).to_str())
    drawn = torch.Generator().manual_seed(0)
    shapes = hf_shapes(family.mappings(MODEL))
    with (folder / WEIGHTS).open("wb") as file:
        for chunk in chunks_of(shapes, torch.float32, lambda name: 0.02 * torch.randn(shapes[name], generator=drawn)):
            file.write(chunk)
