"""Ranks that compute for longer than the others, for whom all of them wait in every step."""

from __future__ import annotations

import contextlib
import statistics
import time
from collections.abc import Iterator

import torch

from headway.training.ranks import Alone

EVERY = 50  # steps over which times are compared
SLOW = 1.2  # times the median of the ranks


class ComputeTimes:
    """How long this rank computes before it waits for the others, added up over some steps."""

    def __init__(self, ranks: Alone, device: torch.device) -> None:
        self.ranks, self.device = ranks, device
        self.seconds = 0.0
        self.events: list[tuple[torch.cuda.Event, torch.cuda.Event]] = []  # around the work of steps on a GPU
        self.named: int | None = None  # the rank that was last reported

    @contextlib.contextmanager
    def measured(self) -> Iterator[None]:
        """Time the block: on a GPU what the device does, without waiting for it."""
        if self.ranks.size == 1:
            yield
            return
        if self.device.type == "cuda":
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            begin.record()
            yield
            end.record()
            self.events.append((begin, end))
            return
        started = time.perf_counter()
        yield
        self.seconds += time.perf_counter() - started

    def slowest(self, step: int) -> str | None:
        """Every EVERY steps, which all ranks ask after: what to say of a rank that is slower than the others.

        A rank is reported once, until another one or none is slow.
        """
        if self.ranks.size == 1 or step % EVERY:
            return None
        for begin, end in self.events:
            end.synchronize()
            self.seconds += begin.elapsed_time(end) / 1000
        own = torch.tensor([self.seconds], dtype=torch.float64)
        all_seconds = self.ranks.joined(own).tolist()
        self.seconds = 0.0
        self.events.clear()
        rank = max(range(self.ranks.size), key=lambda each: all_seconds[each])
        ratio = all_seconds[rank] / max(statistics.median_low(all_seconds), 1e-9)
        before, self.named = self.named, rank if ratio > SLOW else None
        if self.named is None or self.named == before:
            return None
        return (
            f"step {step}: rank {rank} on {self.ranks.host(rank)} computes {ratio:.1f} times as long as the median of "
            f"the {self.ranks.size} ranks, which wait for it"
        )
