"""Several ranks forked from the test's own process: they start in milliseconds, and each has one thread."""

from __future__ import annotations

import math
import signal
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from headway.reliability.process import Child, Ended, start
from headway.training.ranks import STORE, Alone, RankPlace, joined_ranks

GRACE = 1.0  # seconds


def together(count: int, work: Callable[[Alone], object], beside: int | None = None) -> list[Ended]:
    """What becomes of `work` on each of `count` ranks, of which `beside` are taken to be on one machine."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {STORE: str(Path(folder) / "store"), "GLOO_SOCKET_IFNAME": "lo"}

        def rank(number: int) -> Callable[[], object]:
            def run() -> object:
                with joined_ranks("cpu", RankPlace(number, count, number, beside or count, 0)) as ranks:
                    return work(ranks)

            return run

        children = [start(rank(number), environment=environment, cpu_seconds=60) for number in range(count)]
        return _ended(children)


def _ended(children: list[Child]) -> list[Ended]:
    """How they ended; once one has failed, the others are killed after a while, as the launcher of `--nproc` does."""
    ended: dict[int, Ended] = {}
    failed = math.inf
    while len(ended) < len(children):
        for number, child in enumerate(children):
            if number not in ended and (found := child.poll(120)) is not None:
                ended[number] = found
                failed = failed if found.code == 0 else min(failed, time.monotonic())
            elif number not in ended and time.monotonic() > failed + GRACE:
                child.send(signal.SIGKILL)
        time.sleep(0.005)
    return [ended[number] for number in range(len(children))]
