"""The front's side of an engine: it starts the process, sends requests, hands events to whom they belong, and starts
the process again when it ends or does not answer.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import socket
import sys
import time
from asyncio.subprocess import DEVNULL, Process
from collections import deque
from dataclasses import dataclass
from typing import Any

from headway.errors import HeadwayError, one_line
from headway.serving.api_errors import ApiError
from headway.serving.frames import packed, read_frame
from headway.serving.limits import ServerLimits
from headway.serving.metrics import Metrics
from headway.serving.requests import Request, TokenEvent
from headway.serving.text_model import TextModel

BACK_OFF = (0.5, 1.0, 2.0, 4.0)  # seconds before an engine that ended is started again
MOST_DEATHS = 5  # within a minute, after which the server gives up
Inbox = asyncio.Queue["TokenEvent | ApiError"]


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSettings:
    """What an engine is started with."""

    name: str  # of the model, as clients call it
    run: str  # its folder
    precision: str = "fp32"
    threads: int = 0  # 0: as torch does
    worker: int = 0  # its number among the engines of the model


def engine_down() -> ApiError:
    """The error of a request that has no engine, or has lost it."""
    return ApiError(503, "the engine of this model is being restarted", code="engine_down", retry_after=2)


def queue_full(code: str = "queue_full") -> ApiError:
    """The error of a request that may not even wait."""
    return ApiError(429, "too many requests wait; try again later", code=code, retry_after=1)


class EngineProcess:
    """One run's engine, from its first start to the end of the server."""

    def __init__(self, settings: EngineSettings, limits: ServerLimits, metrics: Metrics) -> None:
        self.settings, self.limits, self.metrics = settings, limits, metrics
        self.described: dict[str, Any] | None = None  # of the engine that is ready; None while there is none
        self.text: TextModel | None = None
        self.failed = asyncio.Event()  # it cannot be started: `reason` says why
        self.reason = ""
        self.was_ready = False
        self._process: Process | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._inboxes: dict[str, Inbox] = {}
        self._calls: dict[str, asyncio.Future[dict[str, Any]]] = {}
        self._numbers = itertools.count()
        self._heard = 0.0
        self._weights: asyncio.Future[str] | None = None  # an answer that is waited for
        self._task: asyncio.Task[None] | None = None
        self._stopping = False

    @property
    def ready(self) -> bool:
        """Whether it takes work."""
        return self.described is not None

    @property
    def load(self) -> int:
        """Requests that it has."""
        return len(self._inboxes) + len(self._calls)

    @property
    def pid(self) -> int | None:
        """The engine's process, where there is one."""
        return None if self._process is None else self._process.pid

    def start(self) -> None:
        """Begin to run and watch the process."""
        self._task = asyncio.get_running_loop().create_task(self._supervise())

    async def stop(self) -> None:
        """End the process."""
        self._stopping = True
        if self._writer is not None:
            self._writer.close()
        process = self._process
        if process is not None:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(process.wait(), 2.0)
            if process.returncode is None:
                process.kill()
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    def submit(self, request: Request, inbox: Inbox) -> None:
        """Send a request; its events come to the inbox. Raises ApiError while there is no engine."""
        if not self.ready:
            raise self.unavailable()
        self._inboxes[request.id] = inbox
        self._send({"request": request.to_json()})

    def cancel(self, id: str) -> None:
        """Let a request end, unless it has."""
        if self._inboxes.pop(id, None) is not None:
            self.metrics.add("headway_cancelled_total", model=self.settings.name)
            self._send({"cancel": id})

    def expect_room(self) -> None:
        """Raise ApiError if as much waits as may: the engine would refuse a request once its prompt was tokenized."""
        if max(len(self._inboxes), len(self._calls)) >= self.limits.rows + self.limits.waiting:
            raise queue_full()

    async def newest_weights(self) -> str:
        """A digest of the weights that the run's folder has now; empty if there is no answer."""
        self._weights = asyncio.get_running_loop().create_future()
        self._send({"weights": 0})
        try:
            async with asyncio.timeout(self.limits.heartbeat_seconds):
                return await self._weights
        except TimeoutError:
            return ""

    async def call(self, verb: str, inputs: list[Any], arguments: dict[str, Any], client: str) -> tuple[list[Any], int]:
        """The results of a call of the pipeline, and the tokens of its texts. Raises ApiError."""
        if not self.ready:
            raise self.unavailable()
        self.expect_room()
        id = str(next(self._numbers))
        future = self._calls[id] = asyncio.get_running_loop().create_future()
        self._send({"call": id, "client": client, "verb": verb, "inputs": inputs, "arguments": arguments})
        try:
            async with asyncio.timeout(self.limits.request_seconds):
                answer = await future
        except TimeoutError:
            raise ApiError(503, "the deadline of the request has passed", code="deadline", retry_after=5) from None
        finally:
            self._calls.pop(id, None)
            if not future.done() or future.cancelled():
                self.metrics.add("headway_cancelled_total", model=self.settings.name)
                self._send({"cancel_call": id})
        if "refused_call" in answer:
            raise queue_full(answer["refused_call"])
        if "error" in answer:
            raise ApiError(400, answer["error"])
        if "failed" in answer:
            raise ApiError(500, "the request failed", code=answer.get("code", "failed"))
        return answer["value"], answer["tokens"]

    @property
    def _labels(self) -> dict[str, str]:
        return {"model": self.settings.name, "worker": str(self.settings.worker)}

    def unavailable(self) -> ApiError:
        """Why there is no engine now."""
        if self.was_ready:
            return engine_down()
        return ApiError(503, "the model is being loaded", code="loading", retry_after=2)

    def _send(self, message: dict[str, Any]) -> None:
        if self._writer is not None and not self._writer.is_closing():
            self._writer.write(packed(message))

    async def _supervise(self) -> None:
        deaths: deque[float] = deque(maxlen=MOST_DEATHS)
        for attempt in itertools.count():
            try:
                await self._run_once()
            except Exception as error:  # a defect, or a run whose tokenizer or template cannot be used
                self._give_up(one_line(error) if isinstance(error, HeadwayError) else f"internal error: {error!r}")
            finally:
                self._lose()
            if self._stopping or self.failed.is_set():
                return
            deaths.append(time.monotonic())
            if len(deaths) == MOST_DEATHS and deaths[-1] - deaths[0] < 60:
                self._give_up(f"{self.settings.name}: the engine ended {MOST_DEATHS} times within a minute")
                return
            await asyncio.sleep(BACK_OFF[min(attempt, len(BACK_OFF) - 1)])

    async def _run_once(self) -> None:
        """Start the process and read what it sends until it ends."""
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "headway.serving.engine", str(theirs.fileno()),
                pass_fds=[theirs.fileno()], stdin=DEVNULL, stdout=DEVNULL, start_new_session=True,
            )  # fmt: skip
        self.metrics.add("headway_engine_starts_total", model=self.settings.name)
        reader, self._writer = await asyncio.open_connection(sock=ours)
        self._send(self._first_frame())
        self._heard = time.monotonic()
        watch = asyncio.get_running_loop().create_task(self._watch(self._process))
        try:
            while (message := await read_frame(reader)) is not None:
                self._heard = time.monotonic()
                self._receive(message)
        finally:
            watch.cancel()
            self._writer.close()
            if self._process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    self._process.kill()
                await self._process.wait()

    def _first_frame(self) -> dict[str, Any]:
        limits = self.limits
        return {
            "run": self.settings.run,
            "precision": self.settings.precision,
            "threads": self.settings.threads,
            "scheduler": {
                "rows": limits.rows,
                "tokens": limits.cache_tokens,
                "waiting": limits.waiting,
                "waiting_of_client": limits.waiting_per_client,
            },
        }

    async def _watch(self, process: Process) -> None:
        """Ask for a sign of life every second, and end a process that is ready and gives none."""
        while True:
            await asyncio.sleep(1.0)
            self._send({"ping": 0})
            if self.ready and time.monotonic() - self._heard > self.limits.heartbeat_seconds:
                process.kill()
                return

    def _receive(self, message: dict[str, Any]) -> None:
        name, of = self.settings.name, self._labels
        if "events" in message:
            for key in ("rows", "waiting"):
                self.metrics.set(f"headway_{key}", message[key], **of)
            self.metrics.set("headway_reserved_tokens", message["reserved"], **of)
            if message["cached"]:
                self.metrics.add("headway_tokens_total", message["cached"], model=name, kind="cached")
            self.metrics.observe("headway_step_seconds", message["seconds"], model=name)
            for values in message["events"]:
                self._deliver(TokenEvent.from_json(values))
        elif "refused" in message:
            self._refuse(message["refused"], message["code"])
        elif "result" in message:
            future = self._calls.get(message["result"])
            if future is not None and not future.done():
                future.set_result(message)
        elif "ready" in message:
            self.text = None if message["ready"]["text"] is None else TextModel(message["ready"])
            self.described, self.was_ready = message["ready"], True
            self.metrics.set("headway_engine_up", 1, **of)
        elif "newest" in message:
            if self._weights is not None and not self._weights.done():
                self._weights.set_result(message["newest"])
        elif "fatal" in message and not self.was_ready:
            self._give_up(message["fatal"])

    def _deliver(self, event: TokenEvent) -> None:
        inbox = self._inboxes.get(event.id)
        if inbox is None:
            return
        inbox.put_nowait(event)
        if event.ended:
            del self._inboxes[event.id]

    def _refuse(self, id: str, code: str) -> None:
        inbox = self._inboxes.pop(id, None)
        if inbox is None:
            return
        if code == "too_large":
            tokens = self.limits.cache_tokens
            inbox.put_nowait(ApiError(400, f"prompt and max_tokens are more than the {tokens} tokens of the KV cache"))
        else:
            inbox.put_nowait(queue_full(code))

    def _lose(self) -> None:
        """The engine is gone: so are its requests."""
        self.described = None
        if not self._stopping:  # else another one may be up in its place
            self.metrics.set("headway_engine_up", 0, **self._labels)
        for inbox in self._inboxes.values():
            inbox.put_nowait(engine_down())
        self._inboxes.clear()
        for future in self._calls.values():
            if not future.done():
                future.set_exception(engine_down())
        self._calls.clear()

    def _give_up(self, reason: str) -> None:
        self.reason = reason
        self.failed.set()
