"""Comparisons with the peers, each a ratio measured in one run."""

from __future__ import annotations

from collections.abc import Callable

from headway.bench.attend import bench_attend
from headway.bench.result import Result

BENCHES: dict[str, Callable[[], list[Result]]] = {"attend": bench_attend}

__all__ = ["BENCHES", "Result"]
