"""Deadlines of connections: for headers, a body, an idle connection and an unread answer."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

uvicorn = pytest.importorskip("uvicorn")

from headway.serving.limits import ServerLimits  # noqa: E402
from headway.serving.protocol import guarded  # noqa: E402
from headway.serving.server import bound, server_config  # noqa: E402

LIMITS = ServerLimits(
    header_seconds=0.3, body_seconds=0.6, idle_seconds=0.9, write_seconds=0.4, connections=8, connections_per_address=6
)
LARGE = 768 << 10  # more than the buffers of both sides hold, less than the system would keep by itself
Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def app(
    scope: dict[str, Any], receive: Callable[[], Awaitable[Any]], send: Callable[[Any], Awaitable[None]]
) -> None:
    """Reads the body and answers with its length, or with a large answer."""
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        size += len(message.get("body", b""))
        if not message.get("more_body"):
            break
    text = b"x" * LARGE if scope["path"] == "/large" else str(size).encode()
    await send(
        {"type": "http.response.start", "status": 200, "headers": [(b"content-length", str(len(text)).encode())]}
    )
    await send({"type": "http.response.body", "body": text})


@asynccontextmanager
async def serving(limits: ServerLimits = LIMITS) -> AsyncIterator[tuple[Any, Callable[[], Awaitable[Stream]]]]:
    listener = bound("127.0.0.1", 0)
    config = server_config(app, limits)  # type: ignore[arg-type]
    server = uvicorn.Server(config)
    task = asyncio.ensure_future(server.serve(sockets=[listener]))
    while not server.started:
        await asyncio.sleep(0.01)
    try:
        yield server, lambda: asyncio.open_connection("127.0.0.1", listener.getsockname()[1])
    finally:
        server.should_exit = True
        await task


async def closed_after(stream: Stream, least: float, most: float) -> bytes:
    """What arrives until the other side closes, which it does between two times."""
    began = time.monotonic()
    try:
        data = await asyncio.wait_for(stream[0].read(), 5.0)
    except ConnectionResetError:
        data = b""
    assert least <= time.monotonic() - began <= most + 1.0
    stream[1].close()
    return data


def run(work: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(work())  # type: ignore[arg-type]


def test_silent_and_slow_headers() -> None:
    async def work() -> None:
        async with serving() as (_, connect):
            silent, slow = await connect(), await connect()
            slow[1].write(b"GET / HTTP/1.1\r\nHo")

            async def trickle() -> None:
                for letter in b"st: somewhere":
                    await asyncio.sleep(0.1)
                    slow[1].write(bytes([letter]))

            trickling = asyncio.ensure_future(trickle())
            found = await asyncio.gather(closed_after(silent, 0.2, 0.3), closed_after(slow, 0.2, 0.3))
            trickling.cancel()
            assert found[0] == b""
            assert found[1].startswith(b"HTTP/1.1 408 ")
            assert json.loads(found[1].split(b"\r\n\r\n")[1])["error"]["code"] == "timeout"

    run(work)


def test_slow_bodies() -> None:
    async def work() -> None:
        async with serving() as (_, connect):
            stream = await connect()
            stream[1].write(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nabc")
            await closed_after(stream, 0.5, 0.6)

    run(work)


def test_idle_connections_and_two_requests_on_one() -> None:
    async def work() -> None:
        async with serving() as (_, connect):
            stream = await connect()
            for _ in range(2):
                stream[1].write(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc")
                head = await asyncio.wait_for(stream[0].readuntil(b"\r\n\r\n"), 5.0)
                assert b"200 OK" in head
                assert await stream[0].readexactly(1) == b"3"
                await asyncio.sleep(0.4)  # longer than headers may take, shorter than a connection may be idle
            await closed_after(stream, 0.2, 0.9)

    run(work)


def test_an_answer_that_is_not_read() -> None:
    async def work() -> None:
        async with serving() as (server, connect):
            stream = await connect()
            stream[1].get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            stream[0]._limit = 1024  # type: ignore[attr-defined]
            stream[1].transport.pause_reading()  # type: ignore[attr-defined]
            stream[1].write(b"GET /large HTTP/1.1\r\nHost: a\r\n\r\n")
            await asyncio.sleep(0.2)
            assert len(server.server_state.connections) == 1
            for _ in range(30):
                await asyncio.sleep(0.1)
                if not server.server_state.connections:
                    break
            assert not server.server_state.connections
            stream[1].close()

    run(work)


def test_too_many_connections_of_one_address() -> None:
    async def work() -> None:
        async with serving() as (server, connect):
            streams = [await connect() for _ in range(7)]
            assert await asyncio.wait_for(_ends(streams[-1]), 0.25) is True
            assert len(server.server_state.connections) == 6
            for stream in streams:
                stream[1].close()

    async def _ends(stream: Stream) -> bool:
        try:
            return await stream[0].read() == b""
        except ConnectionResetError:
            return True

    run(work)


def test_what_is_not_http_gets_the_one_error_shape() -> None:
    async def work() -> None:
        async with serving() as (_, connect):
            stream = await connect()
            stream[1].write(b"\x00\x01 nonsense\r\n\r\n")
            found = await closed_after(stream, 0.0, 0.3)
            assert found.startswith(b"HTTP/1.1 400 ")
            assert json.loads(found.split(b"\r\n\r\n")[1])["error"]["code"] == "invalid_http"

    run(work)


def test_stopping_does_not_wait_for_slow_clients() -> None:
    async def work() -> None:
        long = ServerLimits()  # deadlines far away
        async with serving(long) as (server, connect):
            streams = [await connect() for _ in range(3)]
            streams[1][1].write(b"GET / HT")
            streams[2][1].write(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nabc")
            await asyncio.sleep(0.2)
            assert guarded(long).limits is long
            server.should_exit = True
            began = time.monotonic()
            await asyncio.gather(*(closed_after(each, 0.0, 2.0) for each in streams))
            assert time.monotonic() - began < 3.0

    run(work)
