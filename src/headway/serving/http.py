"""AnswerWriter, and sending them over ASGI: as one piece, or in pieces as they come."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from headway.serving.api_errors import ApiError

Send = Callable[[dict[str, Any]], Awaitable[None]]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Headers = list[tuple[str, str]]
ALWAYS = [("cache-control", "no-store"), ("x-content-type-options", "nosniff")]


@dataclass(slots=True)
class HttpAnswer:
    """A whole answer: a JSON value, or text."""

    body: Any
    status: int = 200
    headers: Headers = field(default_factory=list)
    kind: str = "text/plain; version=0.0.4; charset=utf-8"  # the content type of text

    def encoded(self) -> tuple[bytes, str]:
        """The bytes and their content type."""
        if isinstance(self.body, str):
            return self.body.encode(), self.kind
        return json.dumps(self.body, allow_nan=False).encode(), "application/json"


@dataclass(slots=True)
class EventStream:
    """An answer in server-sent events. An error in it becomes an event, and the stream ends without `[DONE]`."""

    chunks: AsyncIterator[dict[str, Any]]
    headers: Headers = field(default_factory=list)
    close: Callable[[], None] = lambda: None  # is called when nothing more of it will be sent


async def send_answer(send: Send, answer: HttpAnswer, *, close: bool = False) -> None:
    """Send a whole answer."""
    data, kind = answer.encoded()
    headers = [*ALWAYS, ("content-type", kind), ("content-length", str(len(data))), *answer.headers]
    headers += [("connection", "close")] if close else []
    await send({"type": "http.response.start", "status": answer.status, "headers": _encoded(headers)})
    await send({"type": "http.response.body", "body": data})


async def send_error(send: Send, error: ApiError, body: Any = None) -> None:
    """Send an error; `body` is another shape than OpenAI's."""
    shape = error.body() if body is None else body
    await send_answer(send, HttpAnswer(shape, error.status, error.headers), close=error.close)


async def send_stream(send: Send, stream: EventStream) -> None:
    """Send events as they come."""
    headers = [*ALWAYS, ("content-type", "text/event-stream; charset=utf-8"), ("x-accel-buffering", "no")]
    await send({"type": "http.response.start", "status": 200, "headers": _encoded([*headers, *stream.headers])})

    async def event(text: str, *, more: bool = True) -> None:
        await send({"type": "http.response.body", "body": f"data: {text}\n\n".encode(), "more_body": more})

    try:
        async for chunk in stream.chunks:
            await event(json.dumps(chunk, allow_nan=False))
    except ApiError as error:
        await event(json.dumps(error.body()), more=False)
        return
    await event("[DONE]", more=False)


async def while_connected(receive: Receive, work: Awaitable[Any]) -> Any:
    """The result of some work; it is cancelled where the client leaves before. Raises ConnectionResetError then."""

    async def left() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass

    task, leaving = asyncio.ensure_future(work), asyncio.ensure_future(left())
    try:
        await asyncio.wait({task, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        raise ConnectionResetError
    finally:
        for each in (task, leaving):
            each.cancel()
        await asyncio.gather(task, leaving, return_exceptions=True)


def _encoded(headers: Headers) -> list[tuple[bytes, bytes]]:
    return [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers]
