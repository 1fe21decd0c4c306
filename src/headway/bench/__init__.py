"""Benchmarks against other libraries, each a speed ratio measured in one run; of world models against Q-learning."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from headway.bench.result import BenchReport, Options, Result

# Module of each benchmark, imported on use: the other libraries are large and optional.
BENCHES = {
    "attend": "headway.bench.attend",
    "capture": "headway.bench.capture",
    "checkpoint-read": "headway.bench.checkpoint_read",
    "checkpoint-save": "headway.bench.checkpoint_save",
    "decode-cpu": "headway.bench.decode_cpu",
    "decode-gpu": "headway.bench.decode_gpu",
    "estimate": "headway.bench.estimates",
    "estimate-gpu": "headway.bench.estimates_gpu",
    "flash": "headway.bench.flash",
    "imagine": "headway.bench.imagine",
    "import": "headway.bench.importing",
    "longformer": "headway.bench.longformer",
    "serve": "headway.bench.serve",
    "shards-gpu": "headway.bench.shards_gpu",
    "start-up": "headway.bench.start_up",
    "train-base": "headway.bench.train_base",
    "train-bert": "headway.bench.train_bert",
    "train-gpt": "headway.bench.train_gpt",
    "train-text": "headway.bench.train_text",
    "vit-cpu": "headway.bench.vit_cpu",
    "vit-gpu": "headway.bench.vit_gpu",
    "world": "headway.bench.world",
}


def bench(name: str) -> Callable[[Options], BenchReport]:
    """The benchmark of this name."""
    found: Callable[[Options], BenchReport] = import_module(BENCHES[name]).run
    return found


__all__ = ["BENCHES", "BenchReport", "Options", "Result", "bench"]
