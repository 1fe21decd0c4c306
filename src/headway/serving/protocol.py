"""uvicorn's HTTP/1.1 protocol with deadlines: for headers, for a body, for an idle connection, for an unread answer.

uvicorn itself limits only the time between two requests, and any byte resets that.
"""

from __future__ import annotations

import asyncio
import json
import socket
from collections import Counter
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from headway.serving.api_errors import ApiError
from headway.serving.limits import ServerLimits


class Connections:
    """How many connections there are, in all and from each address."""

    def __init__(self, limits: ServerLimits) -> None:
        self.limits = limits
        self._of: Counter[str] = Counter()

    def enter(self, address: str) -> bool:
        """Count a new connection, unless there are too many."""
        full = self._of.total() >= self.limits.connections
        if full or self._of[address] >= self.limits.connections_per_address:
            return False
        self._of[address] += 1
        return True

    def leave(self, address: str) -> None:
        """A connection has ended."""
        self._of[address] -= 1
        if not self._of[address]:
            del self._of[address]


class GuardedProtocol(H11Protocol):
    """One connection. `limits` and `counted` are set by the subclass that `guarded` makes for a server."""

    limits: ServerLimits
    counted: Connections

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._deadline: asyncio.TimerHandle | None = None
        self._stall: asyncio.TimerHandle | None = None
        self._address: str | None = None  # None: not counted
        self._reading_body = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        peer = transport.get_extra_info("peername")
        address = str(peer[0]) if isinstance(peer, tuple) and peer else ""
        if not self.counted.enter(address):
            transport.abort()
            return
        self._address = address
        super().connection_made(transport)
        transport.set_write_buffer_limits(high=64 * 1024)
        connected = transport.get_extra_info("socket")
        if connected is not None:  # by itself the system would keep megabytes
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, self.limits.send_buffer)
        self._arm(self.limits.header_seconds)

    def data_received(self, data: bytes) -> None:
        if self._address is None:
            return
        if self._waiting and self._deadline is None:
            self._arm(self.limits.header_seconds)
        super().data_received(data)
        if self._waiting:
            return  # the headers are not complete: their deadline stays
        if self.cycle.more_body:
            if not self._reading_body:  # one deadline for the whole body
                self._reading_body = True
                self._arm(self.limits.body_seconds)
        else:
            self._reading_body = False
            self._disarm()

    @property
    def _waiting(self) -> bool:
        """Whether no request is being answered."""
        return self.cycle is None or self.cycle.response_complete

    def on_response_complete(self) -> None:
        self._reading_body = False
        super().on_response_complete()
        self._unset_keepalive_if_required()  # uvicorn's timer, which any byte stops
        if self._waiting and not self.transport.is_closing():
            self._arm(self.limits.idle_seconds)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stall = self.loop.call_later(self.limits.write_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        _cancel(self._stall)
        self._stall = None

    def connection_lost(self, exc: Exception | None) -> None:
        self._disarm()
        _cancel(self._stall)
        self._stall = None
        if self._address is not None:
            self.counted.leave(self._address)
            super().connection_lost(exc)

    def shutdown(self) -> None:
        """The server stops: a connection without a whole request ends at once."""
        if not self._waiting and self.cycle.more_body:
            self.transport.abort()
        else:
            super().shutdown()

    def send_400_response(self, msg: str) -> None:
        self._answer(ApiError(400, msg, code="invalid_http"))

    def _arm(self, seconds: float) -> None:
        self._disarm()
        self._deadline = self.loop.call_later(seconds, self._late)

    def _disarm(self) -> None:
        _cancel(self._deadline)
        self._deadline = None

    def _late(self) -> None:
        self._deadline = None
        begun = self.conn.trailing_data[0] or self._reading_body
        if begun and not self.transport.is_closing():
            self._answer(ApiError(408, "the request did not arrive in time", code="timeout"))
        self.transport.abort() if self._reading_body else self.transport.close()

    def _answer(self, error: ApiError) -> None:
        """Send an error where the application does not: the request is not complete, or is none."""
        body = json.dumps(error.body()).encode()
        headers = [("content-type", "application/json"), ("content-length", str(len(body))), ("connection", "close")]
        try:
            for event in (
                h11.Response(status_code=error.status, headers=headers),
                h11.Data(data=body),
                h11.EndOfMessage(),
            ):
                self.transport.write(self.conn.send(event) or b"")
        except h11.LocalProtocolError:  # an answer has begun
            pass
        self.transport.close()


def _cancel(timer: asyncio.TimerHandle | None) -> None:
    if timer is not None:
        timer.cancel()


def guarded(limits: ServerLimits) -> type[GuardedProtocol]:
    """The protocol of one server."""
    return type("ServerProtocol", (GuardedProtocol,), {"limits": limits, "counted": Connections(limits)})
