"""Messages between the front and an engine: JSON behind its length, on a socket pair. No pickle."""

from __future__ import annotations

import json
import select
import socket
import struct
from asyncio import IncompleteReadError, StreamReader
from collections.abc import Iterator
from typing import Any

from headway.documents import parse_json

_LENGTH = struct.Struct("!I")
_READ = 1 << 16


def packed(message: dict[str, Any]) -> bytes:
    """A message as bytes."""
    data = json.dumps(message, separators=(",", ":")).encode()
    return _LENGTH.pack(len(data)) + data


async def read_frame(reader: StreamReader) -> dict[str, Any] | None:
    """The next message; None at the end."""
    try:
        (length,) = _LENGTH.unpack(await reader.readexactly(_LENGTH.size))
        message: dict[str, Any] = parse_json(await reader.readexactly(length), "a frame", nonfinite=True)
    except (IncompleteReadError, ConnectionError):
        return None
    return message


class Frames:
    """The engine's end: messages that have arrived are read without waiting for others."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.closed = False
        self._buffer = bytearray()

    def send(self, message: dict[str, Any]) -> None:
        """Send a message. Raises OSError where the front is gone."""
        self.connection.sendall(packed(message))

    def receive(self, timeout: float) -> Iterator[dict[str, Any]]:
        """The messages that are there, or arrive within `timeout` seconds if none is."""
        while not self.closed and select.select([self.connection], [], [], timeout)[0]:
            try:
                data = self.connection.recv(_READ)
            except OSError:
                data = b""
            self.closed = not data
            self._buffer += data
            timeout = 0.0
        while (message := self._next()) is not None:
            yield message

    def _next(self) -> dict[str, Any] | None:
        if len(self._buffer) < _LENGTH.size:
            return None
        end = _LENGTH.size + _LENGTH.unpack_from(self._buffer)[0]
        if len(self._buffer) < end:
            return None
        message: dict[str, Any] = parse_json(bytes(self._buffer[_LENGTH.size : end]), "a frame", nonfinite=True)
        del self._buffer[:end]
        return message
