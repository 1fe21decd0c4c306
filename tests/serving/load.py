"""Many clients at once, hostile bytes, and clients that leave: what the tests of a running server send to it."""

from __future__ import annotations

import asyncio
import json
import math
import random
import socket
import struct
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from headway.serving.limits import ServerLimits

PER_ADDRESS = 48  # connections from one address of the loopback network, below the server's limit
HEADERS = (
    b"Host: localhost", b"Host:", b"Content-Length: -1", b"Content-Length: 99999999999", b"Content-Length: 5",
    b"Transfer-Encoding: chunked", b"Transfer-Encoding: gzip, chunked", b"Content-Type: text/plain", b" folded: x", b"",
    b"Connection: upgrade\r\nUpgrade: websocket", b"Range: bytes=0-1,2-3", b"Origin: null", b"X: \x00",
    b"Expect: 100-continue",
)  # fmt: skip
VALUES = (
    b'"\\ud800"', b"NaN", b"1e999", b"-1", b"99999999999999999999", b'"a"', b"[]", b"{}", b"[[1]]", b"[null]", b"true",
    b'"' + b"x" * 3000 + b'"', b"[" * 40 + b"]" * 40, b'{"a":1,"a":2}', b"\xff\xfe", b"[-1]", b"[1e9]", b'"\\u0000"',
    b"null", b"0", b"1",
)  # fmt: skip
FIELDS = (
    b"prompt", b"max_tokens", b"n", b"stop", b"logprobs", b"temperature", b"seed", b"stream", b"stream_options",
    b"logit_bias", b"echo", b"best_of", b"messages", b"model", b"tools", b"\xc3\xa9", b"input", b"q", b"target",
)  # fmt: skip
PATHS = (
    b"/v1/completions", b"/v1/chat/completions", b"/v1/embeddings", b"/v1/score", b"/translate", b"/v1/models/x",
    b"/", b"//", b"/v1/../metrics", b"/%2f", b"/v1/completions?x=1", b"*", b"http://localhost/v1/models", b"/health",
)  # fmt: skip


@dataclass
class Tally:
    """What clients have met."""

    right: int = 0
    wrong: int = 0
    lost: int = 0
    refused: int = 0
    statuses: Counter[int] = field(default_factory=Counter)
    refusals: list[float] = field(default_factory=list)  # seconds of each
    health: list[float] = field(default_factory=list)

    @staticmethod
    def p99(values: list[float]) -> float:
        return sorted(values)[int(0.99 * (len(values) - 1))] if values else 0.0


def request(port: int, body: dict[str, Any], path: str = "/v1/completions") -> bytes:
    data = json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(data)}\r\nConnection: close\r\n\r\n".encode() + data


async def exchanged(port: int, data: bytes, address: str = "127.0.0.1", seconds: float = 120.0) -> bytes:
    """All that the server answers to these bytes, on a connection of their own."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(address, 0))
    try:
        writer.write(data)
        async with asyncio.timeout(seconds):
            return await reader.read()
    finally:
        writer.close()


def status_of(answer: bytes) -> int:
    return int(answer[9:12]) if answer.startswith(b"HTTP/1.1 ") else 0


async def crowd(port: int, bodies: list[dict[str, Any]], expected: list[str], clients: int) -> Tally:
    """Each client asks until it is answered; a refusal is tried again. /health is asked all the while."""
    tally, over = Tally(), asyncio.Event()

    async def client(n: int) -> None:
        body, want = bodies[n % len(bodies)], expected[n % len(bodies)]
        draw = random.Random(n)
        while True:
            began = time.monotonic()
            try:
                answer = await exchanged(port, request(port, body), f"127.0.1.{1 + n // PER_ADDRESS}")
            except OSError:
                await asyncio.sleep(draw.uniform(0.1, 0.5))
                continue
            status = status_of(answer)
            if status == 429:
                tally.refused += 1
                tally.refusals.append(time.monotonic() - began)
                await asyncio.sleep(draw.uniform(0.5, 2.0))
                continue
            tally.statuses[status] += 1
            if status != 200:
                tally.lost += 1
            elif json.loads(answer.partition(b"\r\n\r\n")[2])["choices"][0]["text"] == want:
                tally.right += 1
            else:
                tally.wrong += 1
            return

    async def healthy() -> None:
        get = f"GET /health HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\r\n".encode()
        while not over.is_set():
            began = time.monotonic()
            assert status_of(await exchanged(port, get)) == 200
            tally.health.append(time.monotonic() - began)
            await asyncio.sleep(0.05)

    watching = asyncio.ensure_future(healthy())
    await asyncio.gather(*(client(n) for n in range(clients)))
    over.set()
    await watching
    return tally


def hostile(draw: random.Random, port: int) -> bytes:
    """A request that is valid, or damaged in its line, headers, JSON or bytes."""
    fields = b",".join(
        b'"' + draw.choice(FIELDS) + b'":' + draw.choice(VALUES) for _ in range(draw.choice((0, 1, 1, 2, 3)))
    )
    body = b'{"prompt":"I like","max_tokens":2' + (b"," + fields if fields else b"") + b"}"
    if draw.random() < 0.1:
        body = draw.randbytes(draw.randint(0, 60))
    headers = [b"Host: 127.0.0.1:%d" % port, b"Content-Type: application/json", b"Content-Length: %d" % len(body)]
    for _ in range(draw.choice((0, 0, 0, 0, 1, 2))):
        headers.insert(draw.randint(0, len(headers)), draw.choice(HEADERS))
    method = draw.choice((b"POST",) * 9 + (b"GET", b"PUT", b"OPTIONS", b"CONNECT", b"\x16\x03"))
    version = draw.choice((b"HTTP/1.1",) * 9 + (b"HTTP/1.0", b"HTTP/9", b""))
    path = draw.choice(PATHS) if draw.random() < 0.4 else b"/v1/completions"
    whole = method + b" " + path + b" " + version + b"\r\n" + b"\r\n".join(headers) + b"\r\n\r\n" + body
    if draw.random() < 0.3:
        damaged = bytearray(whole)
        for _ in range(draw.randint(1, 4)):
            damaged[draw.randrange(len(damaged))] = draw.randrange(256)
        whole = bytes(damaged)
    return whole * draw.choice((1, 1, 1, 2))  # sometimes pipelined


async def fuzzed(port: int, count: int, seed: int, at_once: int = 24) -> Counter[int]:
    """The statuses of so many hostile requests; 0: no answer within two seconds, as to one that is not whole."""
    draw, statuses, room = random.Random(seed), Counter[int](), asyncio.Semaphore(at_once)
    requests = [hostile(draw, port) for _ in range(count)]

    async def one(data: bytes) -> None:
        async with room:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            try:
                writer.write(data)
                async with asyncio.timeout(2):
                    first = await reader.read(64)
            except (TimeoutError, ConnectionError):
                first = b""
            finally:
                writer.transport.abort()
            statuses[status_of(first)] += 1

    await asyncio.gather(*map(one, requests))
    return statuses


def leave(port: int, body: dict[str, Any], draw: random.Random) -> None:
    """Ask for a stream and leave at some moment: by closing, by a reset, or by closing one side."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        data = request(port, {**body, "stream": True})
        cut = draw.random() < 0.1
        connection.sendall(data[: draw.randrange(1, len(data))] if cut else data)
        if not cut and draw.random() < 0.6:
            connection.recv(draw.choice((1, 200, 2000)))
        time.sleep(draw.choice((0.0, 0.0, 0.01, 0.05)))
        way = draw.choice(("close", "reset", "half"))
        if way == "reset":
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        elif way == "half":
            connection.shutdown(socket.SHUT_WR)
            time.sleep(0.02)


SLOW = ("headers", "body", "idle", "reader")
_LIMITS = ServerLimits()
DEADLINES = {
    "headers": _LIMITS.header_seconds, "body": _LIMITS.body_seconds, "idle": _LIMITS.idle_seconds,
    "reader": _LIMITS.write_seconds,
}  # fmt: skip
Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass
class Held:
    """What became of slow connections, and of requests beside them."""

    closed: list[float] = field(default_factory=list)  # seconds until each was closed by the server
    before: list[float] = field(default_factory=list)  # seconds of a request when there were none
    meanwhile: list[float] = field(default_factory=list)
    failed: int = 0


async def slow_connection(port: int, kind: str, number: int) -> Stream:
    """A connection that goes on slowly, or not at all, of an address that has few others."""
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
    made.bind((f"127.0.2.{1 + number // PER_ADDRESS}", 0))
    made.setblocking(False)
    await asyncio.get_running_loop().sock_connect(made, ("127.0.0.1", port))
    reader, writer = await asyncio.open_connection(sock=made, limit=256)
    get = f"GET / HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode()
    if kind == "headers":
        writer.write(get[:30])
    elif kind == "body":
        writer.write(request(port, {"prompt": "I" * 200, "max_tokens": 2})[:-100])
    elif kind == "idle":
        writer.write(get.replace(b"/ ", b"/health ", 1))
    else:  # more answers than the buffers of both sides hold
        writer.write(get * 60)
    return reader, writer


async def _closed(stream: Stream, kind: str, began: float, draw: random.Random) -> float:
    """Seconds until the server closes a connection."""
    reader, writer = stream
    if kind == "reader":  # the end stands behind what is not read, and the deadline begins when the answers are made
        await asyncio.sleep(DEADLINES[kind] + 14)
    closed = False
    while not closed:
        try:
            closed = not await asyncio.wait_for(reader.read(65536), draw.uniform(0.5, 1.0))
        except TimeoutError:
            if kind == "reader":
                break  # it is still open
            if kind != "idle":  # a little more of it, now and then
                writer.write(b"x")
        except OSError:
            closed = True
    writer.close()
    return time.monotonic() - began if closed else math.inf


async def slowed(port: int, kind: str, count: int, clients: int = 20) -> Held:
    """So many slow connections, and clients that ask before and all the while."""
    held, over, draw = Held(), asyncio.Event(), random.Random(0)
    body = request(port, {"prompt": "I", "max_tokens": 4, "ignore_eos": True})

    async def client(times: list[float], number: int) -> None:
        while not over.is_set():
            began = time.monotonic()
            try:
                answered = status_of(await exchanged(port, body, f"127.0.3.{1 + number}")) == 200
            except OSError:
                answered = False
            held.failed += not answered
            times.append(time.monotonic() - began)
            await asyncio.sleep(0.2)

    async def asking(times: list[float], until: Any) -> None:
        over.clear()
        tasks = [asyncio.ensure_future(client(times, n)) for n in range(clients)]
        await until
        over.set()
        await asyncio.gather(*tasks)

    async def holding() -> None:
        async def one(number: int) -> float:
            began = time.monotonic()
            stream = await slow_connection(port, kind, number)
            return await _closed(stream, kind, began if kind in ("headers", "body") else time.monotonic(), draw)

        held.closed += await asyncio.gather(*(one(n) for n in range(count)))

    await asking(held.before, asyncio.sleep(4))
    await asking(held.meanwhile, holding())
    return held
