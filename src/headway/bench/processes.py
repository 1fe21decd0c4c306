"""The sides of a comparison, each in a process of its own.

Two OpenMP runtimes in one process see more threads than there are processors and stop waiting for each other actively,
which slows both down by half: apart, each runs as it does for its users.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Mapping
from multiprocessing import get_context
from multiprocessing.connection import Connection
from statistics import median
from types import TracebackType
from typing import Self

from headway.errors import ConfigError

Calls = Mapping[str, Callable[[], object]]
REST = 0.3  # seconds between turns: the threads of the side before spin for a while (CTranslate2's for 0.2)
WARM = 3  # rounds before those that count: a side that compiles for itself after some steps, as ours does, has done so


class Side:
    """A process that has got its calls ready and makes one when told. Use as a context manager."""

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
        """How long one call takes."""
        self.pipe.send(name)
        return self._answer()

    def _answer(self) -> float:
        try:
            answer = self.pipe.recv()
        except EOFError:
            raise ConfigError("a side of the comparison ended before its answer") from None
        if isinstance(answer, str):
            raise ConfigError(answer)
        return float(answer)


def _serve(pipe: Connection, build: Callable[[int], Calls], threads: int) -> None:
    try:
        calls = build(threads)
        gc.collect()
        gc.freeze()  # as the command line does: what was imported is not looked through again and again
        pipe.send(0.0)
        while (name := pipe.recv()) is not None:
            start = time.perf_counter()
            calls[name]()
            pipe.send(time.perf_counter() - start)
    except (EOFError, KeyboardInterrupt):
        return
    except Exception as error:
        pipe.send(f"{type(error).__name__}: {error}")


def in_turns(turns: list[tuple[Side, str]], *, rounds: int) -> list[float]:
    """The median seconds of each call, made in turns, after some rounds to warm up: for each side as many."""
    times: list[list[float]] = [[] for _ in turns]
    for round_ in range(WARM + rounds):
        for (side, name), kept in zip(turns, times, strict=True):
            time.sleep(REST)
            took = side.seconds(name)
            if round_ >= WARM:
                kept.append(took)
    return [median(kept) for kept in times]
