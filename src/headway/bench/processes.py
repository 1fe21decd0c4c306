"""Each contender of a benchmark in a process of its own.

Two OpenMP runtimes in one process oversubscribe the processors and disable each other's active waiting, which slows
both down by half; in separate processes each runs as it does for its users.
"""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable, Mapping
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median
from types import TracebackType
from typing import Self

from headway.errors import ConfigError

Calls = Mapping[str, Callable[[], object]]
REST = 0.3  # seconds between turns: threads of the previous contender spin for a while (CTranslate2: 0.2)
WARMUP_ROUNDS = 3  # not counted: TorchScript, which our int8 step uses, compiles in the first calls


class Contender:
    """A process that prepares its calls and executes them on request; a context manager."""

    def __init__(self, build: Callable[[int], Calls], threads: int) -> None:
        context = get_context("spawn")
        self.pipe, other = context.Pipe()
        self.process = context.Process(target=_serve, args=(other, build, threads), daemon=True)

    def __enter__(self) -> Self:
        self.process.start()
        self._answer()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.is_alive():
            self.pipe.send(None)
        self.process.join(10)
        self.process.kill()

    def seconds(self, name: str) -> float:
        """The seconds of one call."""
        self.pipe.send(name)
        return self._answer()

    def _answer(self) -> float:
        try:
            answer = self.pipe.recv()
        except EOFError:
            raise ConfigError("a contender's process ended unexpectedly") from None
        if isinstance(answer, str):
            raise ConfigError(answer)
        return float(answer)


def cpu_seconds(pid: int) -> float:
    """What a process and those it started have computed so far, on all processors; 0 where /proc does not say."""
    ticks, found = os.sysconf("SC_CLK_TCK"), {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        found[int(stat.parent.name)] = int(fields[1]), (int(fields[11]) + int(fields[12])) / ticks
    own, grown = {pid}, True
    while grown:
        more = {each for each, (parent, _) in found.items() if parent in own} - own
        own |= more
        grown = bool(more)
    return sum(found[each][1] for each in own if each in found)


def _serve(pipe: Connection, build: Callable[[int], Calls], threads: int) -> None:
    try:
        calls = build(threads)
        gc.collect()
        gc.freeze()  # as the command line does, so that imported modules are not traversed by the collector
        pipe.send(0.0)
        while (name := pipe.recv()) is not None:
            start = time.perf_counter()
            calls[name]()
            pipe.send(time.perf_counter() - start)
    except (EOFError, KeyboardInterrupt):
        return
    except Exception as error:
        pipe.send(f"{type(error).__name__}: {error}")


def time_in_turns(calls: list[tuple[Contender, str]], *, rounds: int) -> list[float]:
    """The median seconds of each call, executed alternately, after warm-up rounds."""
    times: list[list[float]] = [[] for _ in calls]
    for round_ in range(WARMUP_ROUNDS + rounds):
        for (contender, name), kept in zip(calls, times, strict=True):
            time.sleep(REST)
            took = contender.seconds(name)
            if round_ >= WARMUP_ROUNDS:
                kept.append(took)
    return [median(kept) for kept in times]
