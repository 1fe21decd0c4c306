"""Several ranks forked from the test's own process: they start in milliseconds, and each has one thread."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

from headway.reliability.process import Ended, start
from headway.training.ranks import STORE, Alone, RankPlace, joined_ranks


def together(count: int, work: Callable[[Alone], object]) -> list[Ended]:
    """What becomes of `work` on each of `count` ranks; with one, of a process without ranks."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {STORE: str(Path(folder) / "store"), "GLOO_SOCKET_IFNAME": "lo"}

        def rank(number: int) -> Callable[[], object]:
            def run() -> object:
                with joined_ranks("cpu", RankPlace(number, count, number, 0)) as ranks:
                    return work(ranks)

            return run

        children = [start(rank(number), environment=environment, cpu_seconds=60) for number in range(count)]
        return [child.wait(120) for child in children]
