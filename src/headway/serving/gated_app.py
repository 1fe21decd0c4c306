"""An ASGI application behind the gate: routes to handlers, errors in one shape, and a line of log for each answer."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from headway.serving.api_errors import ApiError
from headway.serving.fields import Fields
from headway.serving.gate import Gate, Receive
from headway.serving.http import EventStream, HttpAnswer, Send, send_answer, send_error, send_stream, while_connected
from headway.serving.metrics import Metrics

Handler = Callable[[Fields, str, Mapping[str, Any]], Awaitable[HttpAnswer | EventStream]]


class GatedApp:
    """Answers what the gate lets in, by the handler of its path."""

    def __init__(self, gate: Gate, metrics: Metrics, handlers: Mapping[str, Handler]) -> None:
        self.gate, self.limits, self.metrics, self.handlers = gate, gate.limits, metrics, dict(handlers)
        self.draining = False
        self.log: Callable[[str], None] = lambda line: print(line, file=sys.stderr, flush=True)

    def error_body(self, known: str, error: ApiError) -> Any:
        """The JSON of an error of this path; None for that of the API."""
        return None

    def client_in_body(self, scope: Mapping[str, Any], values: Any, client: str) -> str:
        """The client of a request whose key may be in its body."""
        return client

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        """Answer one request."""
        began, status, known = time.monotonic(), 0, "?"
        room = contextlib.ExitStack()
        try:
            try:
                route, known, client = self.gate.enter(scope)
                room.enter_context(self.gate.room_for(scope, route))
                values = await self.gate.body(scope, route, receive) if route.method == "POST" else {}
                if route.form and self.gate.keys:
                    client = self.client_in_body(scope, values, client)
                if self.draining and not route.open:
                    raise ApiError(503, "the server is stopping", code="draining", retry_after=5, close=True)
                answer = await while_connected(receive, self.handlers[known](Fields(values), client, scope))
                if isinstance(answer, EventStream):
                    status = 200
                    try:
                        await while_connected(receive, send_stream(send, answer))
                    finally:
                        answer.close()
                else:
                    status = answer.status
                    await send_answer(send, answer, close=self.draining)
            except ApiError as error:
                status = error.status
                await send_error(send, error, self.error_body(known, error))
        except ConnectionResetError:
            status = status or 499
        except Exception as error:  # a defect: the client gets the one error shape, the log no text of the client's
            self.log(f"internal error: {type(error).__name__}")
            begun, status = status, 500
            if not begun:
                await send_error(send, ApiError(500, "internal error", code="internal_error", close=True))
        finally:
            room.close()
            self.count(known, status, time.monotonic() - began)

    def count(self, endpoint: str, status: int, seconds: float) -> None:
        """Metrics and the log."""
        self.metrics.add("headway_requests_total", endpoint=endpoint, code=str(status))
        self.metrics.observe("headway_request_seconds", seconds, endpoint=endpoint)
        if endpoint not in ("/health", "/ready", "/metrics"):
            self.log(f"{time.strftime('%Y-%m-%dT%H:%M:%S')} {endpoint} {status} {1000 * seconds:.0f} ms")
