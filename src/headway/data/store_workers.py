"""The processes that prepare a store. Each takes the next unit, and ends when the process that started it does."""

from __future__ import annotations

import os
import signal
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from typing import TYPE_CHECKING, Literal, cast

from headway.errors import ConfigError, DataError, HeadwayError, StorageError

if TYPE_CHECKING:
    from headway.data.store_units import StoreWork

Job = Literal["encode", "hash"]
ONE_THREAD = {"RAYON_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
REPORTED = 1 << 20  # bytes between two reports
ERRORS = {each.exit_code: each for each in (ConfigError, DataError, StorageError)}


def each_unit(
    work: StoreWork, job: Job, units: Sequence[int], workers: int, advanced: Callable[[int, int], None]
) -> None:
    """Do a job on each of these units, by `workers` processes; `advanced` gets bytes and tokens.

    Raises what a worker raised, when the others have finished their units.
    """
    workers = min(workers, len(units))
    if workers <= 1:
        for unit in units:
            getattr(work, job)(unit, advanced)
        return
    context = get_context("spawn")  # a fork would copy threads' locks
    with _one_thread_each():
        pool = []
        for _ in range(workers):
            here, there = context.Pipe()
            process = context.Process(target=_serve, args=(there, work, job), daemon=True)
            process.start()
            there.close()
            pool.append((here, process))
    try:
        _hand_out(deque(units), [here for here, _ in pool], advanced)
    finally:
        for here, _ in pool:
            here.close()
        for _, process in pool:
            process.join(2)
            process.kill()


def _hand_out(left: deque[int], pipes: list[Connection], advanced: Callable[[int, int], None]) -> None:
    busy = []
    for pipe in pipes:
        pipe.send(left.popleft())
        busy.append(pipe)
    while busy:
        for pipe in cast(list[Connection], wait(busy)):
            try:
                kind, *values = pipe.recv()
            except (EOFError, ConnectionError):
                raise DataError(
                    "a worker was killed, perhaps for lack of memory; the same command goes on with what is missing"
                ) from None
            if kind == "advanced":
                advanced(*values)
            elif kind == "failed":
                code, message = values
                raise ERRORS[code](message) if code in ERRORS else RuntimeError(message)
            elif left:
                pipe.send(left.popleft())
            else:
                busy.remove(pipe)


def _serve(pipe: Connection, work: StoreWork, job: Job) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes; the first one closes the pipes
    pending = [0, 0]

    def report(count: int, tokens: int) -> None:
        pending[0], pending[1] = pending[0] + count, pending[1] + tokens
        if pending[0] >= REPORTED:
            flush()

    def flush() -> None:
        pipe.send(("advanced", *pending))
        pending[:] = [0, 0]

    try:
        while True:
            unit = pipe.recv()
            try:
                getattr(work, job)(unit, report)
            except (BrokenPipeError, EOFError):
                return
            except HeadwayError as error:
                pipe.send(("failed", error.exit_code, str(error)))
                return
            except Exception:
                pipe.send(("failed", 1, traceback.format_exc()))
                return
            flush()
            pipe.send(("done",))
    except (EOFError, OSError):
        return


@contextmanager
def _one_thread_each() -> Iterator[None]:
    """The tokenizer library uses one thread in the processes that are started in this block."""
    before = {name: os.environ.get(name) for name in ONE_THREAD}
    os.environ.update(ONE_THREAD)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
