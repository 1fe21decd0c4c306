"""The engines of one model: `--workers` of them, each of which may be replaced by one that loads newer weights.

An engine that is replaced takes no more requests, answers those that it has, and ends. None is lost or begun again.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

from headway.serving.supervisor import EngineProcess

POLL_SECONDS = 0.05  # between two looks at an engine that starts, or that has requests left


class EngineGroup:
    """What answers for one model."""

    def __init__(self, name: str, make: Callable[[int], EngineProcess], *, workers: int = 1) -> None:
        """`make` gives the engine process of a worker, not yet started."""
        self.name, self._make = name, make
        self.engines = [make(number) for number in range(workers)]  # those that take requests
        self.failed = asyncio.Event()  # one of them cannot be started: `reason` says why
        self.reason = ""
        self.reloads = 0
        self._retiring: set[EngineProcess] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._reloading = asyncio.Lock()

    @property
    def described(self) -> dict[str, Any] | None:
        """What is known of the model; None until an engine is ready."""
        return next((each.described for each in self.engines if each.described is not None), None)

    @property
    def ready(self) -> bool:
        """Whether there is an engine that takes work."""
        return any(each.ready for each in self.engines)

    @property
    def whole(self) -> bool:
        """Whether no engine is being restarted."""
        return all(each.ready or not each.was_ready for each in self.engines)

    @property
    def weights(self) -> set[str]:
        """Digests of the weights that are in use."""
        return {each.described["weights"] for each in self.engines if each.described is not None}

    def pick(self) -> EngineProcess:
        """The engine with the fewest requests. Raises ApiError where none takes work."""
        able = [each for each in self.engines if each.ready]
        if not able:
            raise self.engines[0].unavailable()
        return min(able, key=lambda each: each.load)

    def start(self) -> None:
        """Begin to run and watch the processes."""
        for engine in self.engines:
            self._begin(engine)

    def _begin(self, engine: EngineProcess) -> None:
        engine.start()
        self._run(self._notice_failure(engine))

    def _run(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _notice_failure(self, engine: EngineProcess) -> None:
        await engine.failed.wait()
        if engine in self.engines:
            self.reason = engine.reason
            self.failed.set()

    async def reload(self) -> str:
        """Replace one engine after the other by one that loads the weights of now -> "", or why that cannot be.

        Where it cannot be, the engines that there are stay.
        """
        async with self._reloading:
            for number in range(len(self.engines)):
                fresh = self._make(number)
                self._retiring.add(fresh)  # until it takes requests: it is stopped with the others
                self._begin(fresh)
                while not fresh.ready and not fresh.failed.is_set():
                    await asyncio.sleep(POLL_SECONDS)
                if fresh.failed.is_set():
                    await fresh.stop()
                    self._retiring.discard(fresh)
                    return fresh.reason
                old, self.engines[number] = self.engines[number], fresh
                self._retiring = (self._retiring - {fresh}) | {old}
                self._run(self._retire(old))
            self.reloads += 1
        return ""

    async def _retire(self, engine: EngineProcess) -> None:
        """End an engine when it has answered what it has; every request has a deadline, so that it comes to an end."""
        while engine.ready and engine.load:
            await asyncio.sleep(POLL_SECONDS)
        await engine.stop()
        self._retiring.discard(engine)

    async def stop(self) -> None:
        """End all processes."""
        for task in list(self._tasks):
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        engines = (*self.engines, *self._retiring)
        await asyncio.gather(*(engine.stop() for engine in engines), return_exceptions=True)


async def follow(group: EngineGroup, seconds: float, tell: Callable[[str], None]) -> None:
    """Reload a model whenever its run has other weights, as one that still trains."""
    tried: set[str] = set()  # weights that were loaded already, or cannot be: damaged ones are not tried again
    while True:
        await asyncio.sleep(seconds)
        engine = next((each for each in group.engines if each.ready), None)
        found = None if engine is None else await engine.newest_weights()
        if found and found not in group.weights and found not in tried:
            tried.add(found)
            await tell_reload(group, tell)


async def tell_reload(group: EngineGroup, tell: Callable[[str], None]) -> None:
    """Reload a model, and say how that went."""
    if not group.ready:
        tell(f"{group.name} is not reloaded: it is still being loaded")
        return
    reason = await group.reload()
    steps = ", ".join(map(str, (group.described or {}).get("steps", ())))
    kept = f"{group.name} is not reloaded, the weights in use stay: {reason}"
    tell(kept if reason else f"reloaded: {group.name} (steps {steps})")
