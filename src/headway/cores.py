"""The processor's cores that this process may use, and how it shares them with other processes."""

from __future__ import annotations

import os

ANOTHER = 0.5  # load average of the last minute from which another process is taken to be computing
SPINS = "1000"  # rounds of its waiting loop after which a thread sleeps: some ten microseconds


def cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def load() -> float:
    """How many processes computed or waited for a core, on average over the last minute."""
    return os.getloadavg()[0]


def let_threads_sleep() -> None:
    """Where other processes compute too, let threads that wait for each other sleep, not compute in a loop.

    Call it before torch is imported. Its threads meet a thousand times in a step, and the first to arrive waits in a
    loop, for milliseconds, on a core that the others need. Beside two processes on two cores, the median step of a
    small transformer took 0.18 and 2.9 s so, and 0.12 and 0.09 s with this. On an idle machine it takes up to a tenth
    longer with this, and is left as it was. Results are the same. GNU's OpenMP reads the variable, which PyTorch has
    on Linux.
    """
    if load() >= ANOTHER and "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", SPINS)
