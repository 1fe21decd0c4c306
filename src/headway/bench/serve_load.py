"""Clients of a server, a number of them at a time, each sending its next request when the last is answered."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import dataclass
from statistics import quantiles
from typing import Any

from headway.documents import parse_json


@dataclass(frozen=True, slots=True)
class Load:
    """What a round of requests took."""

    seconds: float
    tokens: int
    requests: tuple[float, ...]  # seconds of each

    @property
    def tokens_per_second(self) -> float:
        """Written tokens."""
        return self.tokens / self.seconds

    @property
    def p95(self) -> float:
        """Seconds of a request, which one in twenty exceeds."""
        return quantiles(self.requests, n=20)[-1] if len(self.requests) > 1 else self.requests[0]


def ask(port: int, bodies: list[dict[str, Any]], clients: int, path: str = "/v1/completions") -> Load:
    """Send all requests by this many clients. Raises RuntimeError for an answer that is an error."""
    return asyncio.run(_ask(port, bodies, clients, path))


async def _ask(port: int, bodies: list[dict[str, Any]], clients: int, path: str) -> Load:
    waiting, took, tokens = list(reversed(bodies)), list[float](), 0
    connections = [await asyncio.open_connection("127.0.0.1", port) for _ in range(clients)]

    async def client(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal tokens
        while waiting:
            body, began = waiting.pop(), time.perf_counter()
            written = await _one(reader, writer, port, path, body)
            tokens += written
            took.append(time.perf_counter() - began)

    began = time.perf_counter()
    await asyncio.gather(*(client(*each) for each in connections))
    seconds = time.perf_counter() - began
    for _, writer in connections:
        writer.close()
    return Load(seconds, tokens, tuple(took))


async def _one(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, port: int, path: str, body: dict[str, Any]
) -> int:
    """The number of tokens that the answer to one request has."""
    data = json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
    writer.write(f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data)
    lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
    if "content-length" in headers:
        content = await reader.readexactly(int(headers["content-length"]))
    else:
        content = b""
        while size := int((await reader.readline()).split(b";")[0], 16):
            content += await reader.readexactly(size)
            await reader.readline()
        await reader.readline()
    if " 200 " not in lines[0]:
        raise RuntimeError(f"{path}: {lines[0]}: {content[:200].decode(errors='replace')}")
    count: int = parse_json(content, "the answer")["usage"]["completion_tokens"]
    return count
